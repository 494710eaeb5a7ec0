package line

import (
	"math"

	"crabmem/sessionlog/record"
)

// classify returns the kind of a complete object, which is bad if a key breaks
// S5.
func (r *Record) classify(d *draft, first bool) record.Kind {
	v := &r.Values
	if d.seen&identityKeys != 0 { // only line 1's are seen
		for k := keyAgent; k <= keyCreatedAt; k++ {
			if v[k].Type == absent {
				return r.bad(faultMissing, k, 0)
			}
		}
		if bad := r.check(d, metaKeys, false); bad {
			return record.KindBad
		}
		var ok bool
		if r.uptime, ok = r.integer(v[keyUptime]); !ok {
			return r.bad(faultType, keyUptime, int(v[keyUptime].Lo))
		}
		return record.KindMeta
	}
	if k, ok := d.firstTwice(recordKeys); ok {
		return r.bad(faultTwice, k, int(d.again[k]))
	}
	switch {
	case v[KeyCompact].Type == String:
		return record.KindMarker
	case d.seen.has(KeyRole):
		if bad := r.check(d, messageKeys, true); bad {
			return record.KindBad
		}
		if d.calls.code != faultNone {
			r.fault = d.calls
			return record.KindBad
		}
		return record.KindMessage
	case v[keyMeta].Type == jsonObject:
		if d.meta.code != faultNone {
			r.fault = d.meta
			return record.KindBad
		}
		return record.KindMetaRecord
	case first:
		return r.bad(faultMissing, keyAgent, 0)
	}
	return record.KindUnknown
}

func (r *Record) bad(code faultCode, k key, at int) record.Kind {
	r.fault = fault{code: code, key: k, at: at}
	return record.KindBad
}

// check finds the keys of a set that occur twice or have the wrong type, except
// numbers. With null, a null counts as a missing value of a key that is not
// required.
func (r *Record) check(d *draft, set keys, null bool) (bad bool) {
	if k, ok := d.firstTwice(set); ok {
		r.bad(faultTwice, k, int(d.again[k]))
		return true
	}
	for k := KeyCompact; k <= keyWorkspace; k++ {
		if !set.has(k) {
			continue
		}
		s := r.Values[k]
		want := String
		switch k {
		case KeyToolCalls:
			want = Array
		case keyUptime:
			want = jsonNumber
		}
		if s.Type != want && s.Type != absent && !(null && s.Type == jsonNull && k != KeyRole) {
			r.bad(faultType, k, int(s.start()))
			return true
		}
	}
	return false
}

// firstTwice returns the key of a set that first occurs a second time.
func (d *draft) firstTwice(set keys) (k key, ok bool) {
	if d.twice&set == 0 {
		return 0, false
	}
	for i := KeyCompact; i <= keyWorkspace; i++ {
		if d.twice.has(i) && set.has(i) && (!ok || d.again[i] < d.again[k]) {
			k, ok = i, true
		}
	}
	return k, ok
}

// integer returns the value of an integer from 0 to 2^64-1 without fraction and
// exponent. A missing value is 0.
func (r *Record) integer(s Span) (n uint64, ok bool) {
	for _, c := range r.Line[s.Lo:s.Hi] {
		d := uint64(c) - '0'
		if d > 9 || n > math.MaxUint64/10 || n*10 > math.MaxUint64-d {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
