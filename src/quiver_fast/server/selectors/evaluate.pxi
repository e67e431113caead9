"""The evaluation of a selector: its steps work on a stack.

Truth has three values (JMS 2.0 section 3.8.1.2): a missing property is UNKNOWN.
"""

cdef extern from "string.h" nogil:
    void *memmem(const void *text, size_t size, const void *piece, size_t piece_size)

# Bytes that cost as much as a step: read in a message, compared, searched for a piece.
cdef size_t BYTES_READ = 16
cdef size_t BYTES_COMPARED = 256
cdef size_t BYTES_FOUND = 64


cdef inline bint is_tail(uint8_t byte) noexcept nogil:
    """Say whether a byte of UTF-8 continues a character."""
    return byte & 0xC0 == 0x80


cdef inline void set_truth(Value *value, bint truth) noexcept nogil:
    value.kind = TRUTH
    value.whole = truth


cdef inline bint is_numeric(const Value *value) noexcept nogil:
    return value.kind == WHOLE or value.kind == REAL


cdef inline double as_real(const Value *value) noexcept nogil:
    return value.real if value.kind == REAL else <double>value.whole


cdef inline bint equal(const Value *left, const Value *right) noexcept nogil:
    """Say whether two values of comparable kinds are equal."""
    if left.kind == TEXT:
        return left.size == right.size and memcmp(left.text, right.text, left.size) == 0
    if left.kind == REAL or right.kind == REAL:
        return as_real(left) == as_real(right)
    return left.whole == right.whole


cdef inline bint in_order(Code code, const Value *left, const Value *right) noexcept nogil:
    """Say whether LESS, MORE and so on hold for two numbers."""
    cdef bint less
    cdef bint same = equal(left, right)
    if left.kind == REAL or right.kind == REAL:
        less = as_real(left) < as_real(right)
        if not (less or same) and not as_real(left) > as_real(right):
            # One of them is NaN.
            return False
    else:
        less = left.whole < right.whole
    if code == LESS:
        return less
    if code == LESS_EQUAL:
        return less or same
    if code == MORE:
        return not (less or same)
    return not less


cdef void compare(Code code, Value *left, const Value *right) noexcept nogil:
    """Compare; values of different types give false for every operator (section 3.8.1.1)."""
    cdef bint alike
    if left.kind == UNKNOWN or right.kind == UNKNOWN:
        left.kind = UNKNOWN
        return
    if is_numeric(left) and is_numeric(right):
        if code == EQUAL or code == UNEQUAL:
            set_truth(left, equal(left, right) == (code == EQUAL))
        else:
            set_truth(left, in_order(code, left, right))
        return
    alike = left.kind == right.kind and left.kind != OTHER
    if code != EQUAL and code != UNEQUAL:
        alike = False
    set_truth(left, alike and equal(left, right) == (code == EQUAL))


cdef void calculate(Code code, Value *left, const Value *right) noexcept nogil:
    """Calculate as Java does. An operand that is not a number, or n / 0, gives UNKNOWN."""
    if not (is_numeric(left) and is_numeric(right)):
        left.kind = UNKNOWN
    elif left.kind == REAL or right.kind == REAL:
        left.real = real_result(code, as_real(left), as_real(right))
        left.kind = REAL
    elif code == DIVIDE and right.whole == 0:
        left.kind = UNKNOWN
    else:
        left.whole = whole_result(code, left.whole, right.whole)


cdef inline double real_result(Code code, double left, double right) noexcept nogil:
    if code == ADD:
        return left + right
    if code == SUBTRACT:
        return left - right
    return left * right if code == MULTIPLY else left / right


cdef inline int64_t whole_result(Code code, int64_t left, int64_t right) noexcept nogil:
    """Calculate modulo 2 to the 64."""
    if code == ADD:
        return <int64_t>(<uint64_t>left + <uint64_t>right)
    if code == SUBTRACT:
        return <int64_t>(<uint64_t>left - <uint64_t>right)
    if code == MULTIPLY:
        return <int64_t>(<uint64_t>left * <uint64_t>right)
    # The quotient of the least long and -1 does not fit into a long.
    return whole_result(SUBTRACT, 0, left) if right == -1 else left // right


cdef inline void negate(Value *value) noexcept nogil:
    if value.kind == REAL:
        value.real = -value.real
    elif value.kind == WHOLE:
        value.whole = whole_result(SUBTRACT, 0, value.whole)
    else:
        value.kind = UNKNOWN


cdef inline void both(Value *left, const Value *right) noexcept nogil:
    """AND: false if one value is false, whatever the other is."""
    if is_truth(left, False) or is_truth(right, False):
        set_truth(left, False)
    elif not (is_truth(left, True) and is_truth(right, True)):
        left.kind = UNKNOWN


cdef inline void either(Value *left, const Value *right) noexcept nogil:
    """OR: true if one value is true, whatever the other is."""
    if is_truth(left, True) or is_truth(right, True):
        set_truth(left, True)
    elif not (is_truth(left, False) and is_truth(right, False)):
        left.kind = UNKNOWN


cdef inline bint is_truth(const Value *value, bint truth) noexcept nogil:
    return value.kind == TRUTH and value.whole == truth


cdef void between(Value *value, Value *low, const Value *high) noexcept nogil:
    """BETWEEN is two comparisons joined by AND."""
    cdef Value other = value[0]
    compare(MORE_EQUAL, value, low)
    compare(LESS_EQUAL, &other, high)
    both(value, &other)


cdef int by_size_and_bytes(const void *left, const void *right) noexcept nogil:
    cdef const Value *one = <const Value *>left
    cdef const Value *other = <const Value *>right
    if one.size != other.size:
        return 1 if one.size > other.size else -1
    return memcmp(one.text, other.text, one.size)


cdef void among(Value *value, const Value *strings, uint32_t count) noexcept nogil:
    if value.kind == TEXT:
        set_truth(value, bsearch(value, strings, count, sizeof(Value), by_size_and_bytes) != NULL)
    elif value.kind != UNKNOWN:
        set_truth(value, False)


cdef const char *begins(const Piece *piece, const char *at, const char *end) noexcept nogil:
    """Return the place behind a piece that a text begins with; NULL if it does not."""
    cdef size_t i
    if piece.any == NULL:
        if <size_t>(end - at) < piece.size or memcmp(at, piece.text, piece.size) != 0:
            return NULL
        return at + piece.size
    for i in range(piece.size):
        if at == end:
            return NULL
        if not piece.any[i]:
            if at[0] != piece.text[i]:
                return NULL
            at += 1
            continue
        if is_tail(<uint8_t>at[0]):
            return NULL
        at += 1
        while at < end and is_tail(<uint8_t>at[0]):
            at += 1
    return at


cdef const char *ends(const Piece *piece, const char *start, const char *end) noexcept nogil:
    """Return the place of a piece that a text ends with; NULL if it does not."""
    cdef size_t i = piece.size
    while i:
        i -= 1
        if piece.any != NULL and piece.any[i]:
            while end > start and is_tail(<uint8_t>(end - 1)[0]):
                end -= 1
            if end == start:
                return NULL
        elif end == start or (end - 1)[0] != piece.text[i]:
            return NULL
        end -= 1
    return end


cdef const char *find_piece(const Piece *piece, const char *at, const char *end) noexcept nogil:
    """Return the place behind the first occurrence of a piece; NULL if there is none."""
    cdef const char *found = NULL
    if piece.any == NULL:
        found = <const char *>memmem(at, end - at, piece.text, piece.size)
        if found != NULL:
            found += piece.size
        return found
    while found == NULL and at < end:
        found = begins(piece, at, end)
        at += 1
    return found


cdef bint is_like(const Value *value, const Pattern *pattern) noexcept nogil:
    """Find the pieces one after the other, each as early as possible: no step is taken back."""
    cdef const char *end = value.text + value.size
    cdef const char *at = begins(pattern.pieces, value.text, end)
    cdef uint32_t i
    if at == NULL or pattern.count == 1:
        return at == end
    end = ends(&pattern.pieces[pattern.count - 1], at, end)
    if end == NULL:
        return False
    for i in range(1, pattern.count - 1):
        at = find_piece(&pattern.pieces[i], at, end)
        if at == NULL:
            return False
    return True


cdef int64_t like(Value *value, const Pattern *pattern) noexcept nogil:
    """Return the cost."""
    cdef int64_t cost = <int64_t>(value.size * pattern.weight // BYTES_FOUND)
    if value.kind == TEXT:
        set_truth(value, is_like(value, pattern))
        return cost
    if value.kind != UNKNOWN:
        set_truth(value, False)
    return 0


cdef bint evaluate(Filter *filter) noexcept nogil:
    """Evaluate the steps with the values of a message; return whether the result is true."""
    cdef Value *top = filter.stack - 1
    cdef FilterStep *step
    cdef uint32_t i
    filter.cost += filter.step_count
    for i in range(filter.step_count):
        step = &filter.steps[i]
        if step.code == LITERAL:
            top += 1
            top[0] = step.literal
        elif step.code == NAME:
            top += 1
            top[0] = filter.values[step.slot]
        elif step.code <= MORE_EQUAL:
            top -= 1
            if top.kind == TEXT:
                filter.cost += <int64_t>(top.size // BYTES_COMPARED)
            compare(step.code, top, top + 1)
        elif step.code == AND:
            top -= 1
            both(top, top + 1)
        elif step.code == OR:
            top -= 1
            either(top, top + 1)
        elif step.code == NOT:
            if top.kind == TRUTH:
                top.whole = not top.whole
            else:
                top.kind = UNKNOWN
        elif step.code <= DIVIDE:
            top -= 1
            calculate(step.code, top, top + 1)
        elif step.code == NEGATE:
            negate(top)
        elif step.code == BETWEEN:
            top -= 2
            between(top, top + 1, top + 2)
        elif step.code == AMONG:
            among(top, step.among, step.count)
        elif step.code == LIKE:
            filter.cost += like(top, &step.pattern)
        elif step.code == IS_NULL:
            set_truth(top, top.kind == UNKNOWN)
    return is_truth(top, True)
