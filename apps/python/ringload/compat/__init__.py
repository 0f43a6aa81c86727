# SPDX-License-Identifier: Apache-2.0
"""Replacements for other loaders, with the same names, parameters, results and exceptions."""
