int compute(int n);
