"""The version, which the package's metadata takes from here."""

VERSION = "0.1.0"
