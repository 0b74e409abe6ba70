"""Text files to documents, sentences, vocabularies and tokenized text."""
