# SPDX-License-Identifier: Apache-2.0
"""Plugins for inference engines, which find these modules through entry points."""
