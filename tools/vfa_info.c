/* vfa-info: what of vfa can be used on this machine, and if not, why. */
#include <vfa/vfa.h>

#include <stdio.h>
#include <string.h>

static void print_backend(vfa_backend backend) {
    vfa_backend_info info;
    vfa_backend_info_init(&info, sizeof info);
    printf("  %-17s", vfa_backend_name(backend));
    if (vfa_backend_query(backend, 0, &info) != VFA_OK) {
        printf("unknown: %s\n", vfa_last_error());
        return;
    }
    if (!info.available) {
        printf("no: %s\n", info.reason);
        return;
    }
    printf("usable");
    if (info.resolved != backend) printf(", is %s here", vfa_backend_name(info.resolved));
    if (info.device[0]) printf(", %s", info.device);
    if (info.isa[0]) printf(", %s", info.isa);
    if (info.threads) printf(", %u thread%s", (unsigned)info.threads, info.threads == 1 ? "" : "s");
    if (info.device_count)
        printf(", device 1 of %d, compute capability %d.%d, %llu MiB", (int)info.device_count,
               (int)info.compute_capability / 10, (int)info.compute_capability % 10,
               (unsigned long long)info.memory_bytes >> 20);
    printf("\n");
}

static void print_isa(uint32_t index) {
    vfa_isa_info info;
    vfa_isa_info_init(&info, sizeof info);
    if (vfa_isa_query(index, &info) != VFA_OK)
        printf("  unknown: %s\n", vfa_last_error());
    else if (info.available)
        printf("  %-17susable\n", info.name);
    else
        printf("  %-17sno: %s\n", info.name, info.reason);
}

int main(int argc, char **argv) {
    int b;
    uint32_t i;

    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("vfa-info %s\n", vfa_version_string());
        return 0;
    }
    if (argc != 1) {
        const int asked = argc == 2 && strcmp(argv[1], "--help") == 0;
        fprintf(asked ? stdout : stderr,
                "usage: vfa-info [--help | --version]\n"
                "Prints each backend and each CPU instruction set of vfa, and whether it can be "
                "used here.\n");
        return asked ? 0 : 2;
    }

    printf("vfa %s\n\nbackends\n", vfa_version_string());
    for (b = 0; vfa_backend_name((vfa_backend)b); b++) print_backend((vfa_backend)b);
    printf("\ninstruction sets of the backend %s, worst first\n",
           vfa_backend_name(VFA_BACKEND_CPU));
    for (i = 0; i < vfa_isa_count(); i++) print_isa(i);
    return 0;
}
