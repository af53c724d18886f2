"""Rules that raise all spellings of a function to one standard operator. One operator a file."""
