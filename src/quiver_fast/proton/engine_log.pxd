cdef str last_engine_message()
