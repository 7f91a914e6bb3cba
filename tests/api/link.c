/* Every function that vfa.h declares can be linked. Its list is made from the header. */
#include <vfa/vfa.h>

#include "report.h"

typedef void (*function)(void);

int main(void) {
    static const function functions[] = {
#define X(name) (function) name,
#include "functions.h"
#undef X
    };
    size_t i;
    for (i = 0; i < sizeof functions / sizeof *functions; i++) CHECK(functions[i] != NULL);
    return report_end();
}
