"""The text of PDFs in a request, each read by a process of its own."""
