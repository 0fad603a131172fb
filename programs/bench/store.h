/*
 * A small key-value store: one process that keeps values of 100 to 4,096 bytes in a hash table, and clients
 * that get (nine of ten requests) and set random keys through a local socket.
 */
#ifndef LIMEN_STORE_H
#define LIMEN_STORE_H

/* Starts the server, with all keys set, and the clients. The values are in its memory, or in a file. */
void store_start(int in_file);
/* Returns when the clients have made so many requests, all together. */
void store_serve(long requests);

#endif
