"""Sessions in an object store: pushed from here, gone on with elsewhere. Local disk is the cache.

    sessions/<id>/leases/<token>          who may push; the highest token has the right, and deletes the others
    sessions/<id>/leases/<token>.beat     written now and then by who has it
    sessions/<id>/leases/<token>.over     written when it is given back
    sessions/<id>/states/<token>-<n>      a whole state: manifest of a snapshot, metadata, names of packs
    sessions/<id>/packs/<hash>            chunks, many in each
    sessions/<id>/leases/deleted          the session was deleted: nobody gets a lease (`deleting`)
    notebooks/<hash>                      which session a notebook has: a hint

Objects are written once. A state is written after all that it names, so an interrupted push leaves the one before; the
newest is that with the highest token, then the highest number, so nothing that a holder writes after it lost the lease
counts. What no state names any more is deleted by the next push.
"""
