/* The smallest program: ends at once. What fork + exec of "a tiny static program" executes; no C library. */
#include "../init/sys.h"

__attribute__((used)) void agent_main(void) { sys_exit(0); }
ENTRY;
