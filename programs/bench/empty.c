/* A program of the C library that ends at once: linked statically it is /static, else /dynamic. */
int main(void) { return 0; }
