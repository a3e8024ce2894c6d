"""Estimators with scikit-learn's conventions: the paper's, distributionally robust and doubly robust ones."""
