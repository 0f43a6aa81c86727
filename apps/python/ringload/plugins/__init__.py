# SPDX-License-Identifier: Apache-2.0
"""ringload in inference engines, which find these modules by the package's entry points."""
