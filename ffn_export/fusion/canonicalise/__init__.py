"""The many spellings of one function, raised to one standard operator. One operator a file."""
