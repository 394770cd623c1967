"""A complete GRPO in numpy and Ray, small enough to read in one sitting and to train in half a minute on two cores."""
