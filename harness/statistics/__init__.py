"""What pairs allow to say: means of ratios with intervals, equivalence, and what too few pairs cannot claim."""
