#include "dep_b.h"

extern int dep_a_value;
int dep_a_add(int a, int b);

int compute(int n) {
    return dep_a_add(n, dep_a_value) - 2;
}
