"""What a result proves: records of numbers that anyone can check, and the rules by which a result is called proven."""
