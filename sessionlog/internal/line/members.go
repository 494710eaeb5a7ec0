package line

// known reads the members of the object at the cursor and calls use
// with the values of the keys of a set. depth is that of the values. Invalid JSON
// is a fault of the line; a key that occurs twice is reported in bad.
func (c *cursor) known(set keys, depth int, bad *fault, use func(k key, v Span)) bool {
	var seen keys
	var name, v Span
	c.i++
	for start := true; c.member(&name, start); start = false {
		k := c.keyOf(name)
		if !c.value(&v, depth) {
			return false
		}
		switch {
		case !set.has(k):
		case seen.has(k):
			bad.set(faultTwice, k, name.Lo-1)
		default:
			seen |= 1 << k
			use(k, v)
		}
	}
	return c.fault.code == faultNone
}

// readMeta reads the object of a meta record. Invalid JSON is a fault of the
// line; an invalid meta record is reported in bad.
func (r *Record) readMeta(c *cursor, s *Span, bad *fault) bool {
	lo := c.i
	valid := c.known(titleKeys, 2, bad, func(k key, v Span) {
		switch ok := true; {
		case k == keyTitle && v.Type == String:
			r.Title = v
		case k == keyTitle:
			bad.set(faultType, k, v.Lo)
		case v.Type == jsonNumber:
			if r.uptime, ok = r.integer(v); ok {
				break
			}
			fallthrough
		default:
			bad.set(faultType, k, v.start())
		}
	})
	*s = Span{Lo: int32(lo), Hi: int32(c.i), Type: jsonObject}
	return valid
}

// start is where the value begins, its quote included.
func (s Span) start() int32 {
	if s.Type == String {
		return s.Lo - 1
	}
	return s.Lo
}

// set records a fault unless an earlier one is recorded.
func (f *fault) set(code faultCode, k key, at int32) {
	if f.code == faultNone {
		*f = fault{code: code, key: k, at: int(at)}
	}
}

// readCalls reads the array of a message's tool calls. Invalid JSON is a fault
// of the line; an invalid call is reported in bad.
func (r *Record) readCalls(c *cursor, s *Span, bad *fault) bool {
	lo := c.i
	c.i++
	var call call
	for n := 1; c.element(n == 1); n++ {
		if n == MaxCalls+1 {
			bad.set(faultMany, KeyToolCalls, int32(c.i))
		}
		if !call.read(c, bad) {
			return false
		}
	}
	*s = Span{Lo: int32(lo), Hi: int32(c.i), Type: Array}
	return c.fault.code == faultNone
}

// MaxCalls is the limit of tool calls in a message. A call may be two bytes of
// a line, but takes a hundred in memory.
const MaxCalls = 10_000
