"""Office files of before 2007: LibreOffice writes them anew, and our readers of today's formats read that."""
