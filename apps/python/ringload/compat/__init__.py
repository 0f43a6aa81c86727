# SPDX-License-Identifier: Apache-2.0
"""Modules in place of other loaders': the same names, parameters, results and exceptions."""
