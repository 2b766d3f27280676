"""The text of PDFs and pictures in a request, each read by a process of its own."""
