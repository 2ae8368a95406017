"""The reading of Office files from before 2007: LibreOffice converts them to current formats, which pincite reads."""
