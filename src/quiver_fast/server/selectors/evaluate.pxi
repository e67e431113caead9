"""The evaluation of a selector: its steps work on a stack.

Truth has three values (JMS 2.0 section 3.8.1.2): a missing property is UNKNOWN.
"""

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


cdef void among(Value *value, const Value *strings, uint32_t count) noexcept nogil:
    cdef uint32_t i
    cdef bint found = False
    if value.kind == UNKNOWN:
        return
    if value.kind == TEXT:
        for i in range(count):
            if equal(value, &strings[i]):
                found = True
                break
    set_truth(value, found)


cdef void like(Value *value, const Pattern *pattern) noexcept nogil:
    """Run the automaton. Its cost is always O(bytes of the text * words of the pattern)."""
    cdef uint64_t *now = pattern.now
    cdef const uint64_t *moves
    cdef uint64_t stays
    cdef uint64_t carry
    cdef uint64_t moved
    cdef uint64_t all_ones = ~<uint64_t>0
    cdef uint32_t word
    cdef size_t i
    if value.kind != TEXT:
        if value.kind != UNKNOWN:
            set_truth(value, False)
        return
    memset(now, 0, pattern.words * 8)
    now[0] = 1
    for i in range(value.size):
        moves = pattern.moves + <size_t><uint8_t>value.text[i] * pattern.words
        stays = all_ones if is_tail(<uint8_t>value.text[i]) else 0
        carry = 0
        for word in range(pattern.words):
            moved = now[word] & moves[word]
            now[word] = (moved << 1) | carry | (
                now[word] & (pattern.gaps[word] | (pattern.tails[word] & stays)))
            carry = moved >> 63
    set_truth(value, (now[pattern.count // 64] >> (pattern.count % 64)) & 1)


cdef bint evaluate(Filter *filter) noexcept nogil:
    """Evaluate the steps with the values of a message; return whether the result is true."""
    cdef Value *top = filter.stack - 1
    cdef Step *step
    cdef uint32_t i
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
            like(top, &step.pattern)
        elif step.code == IS_NULL:
            set_truth(top, top.kind == UNKNOWN)
    return is_truth(top, True)
