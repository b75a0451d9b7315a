"""The equation `F[l+1] = sum_p c_p F[l-p+1] + h s(F[l]; G)`, one term per file."""
