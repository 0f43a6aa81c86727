/* SPDX-License-Identifier: Apache-2.0
 *
 * libhdf5's driver for files in S3 calls libcurl. ringload-hdf5-parse reads one descriptor, and never
 * uses that driver, so the wheel has no libcurl: these functions fail.
 */

int curl_global_init(long flags) { return (void)flags, 2; } /* CURLE_FAILED_INIT */
void curl_global_cleanup(void) {}
void* curl_easy_init(void) { return 0; }
void curl_easy_cleanup(void* handle) { (void)handle; }
int curl_easy_perform(void* handle) { return (void)handle, 2; }
int curl_easy_setopt(void* handle, int option, ...) { return (void)handle, (void)option, 2; }
void* curl_slist_append(void* list, const char* text) { return (void)list, (void)text, (void*)0; }
void curl_slist_free_all(void* list) { (void)list; }
