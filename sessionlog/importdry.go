package sessionlog

import "hash/maphash"

// plan is a session as a dry import would leave it.
type plan struct {
	name  string // of the file; "" if the import would create it
	parts []part // nil if the import would not change the file
	sum   uint64 // of its lines, if parts is set
}

// dry returns the result that an import would have. names are the files of the source.
func (im *Importer) dry(names []string, t *transcript) (r ImportResult, err error) {
	source, sum := t.meta.Source, maphash.Bytes(partSeed, t.text)
	plans := im.plans[source]
	if plans == nil {
		for _, name := range names {
			plans = append(plans, plan{name: name})
		}
	}
	for i := range plans {
		p, id, o := &plans[i], "", unchanged
		if p.name != "" {
			id, _ = idOf(p.name, t.meta)
		}
		switch {
		case p.name != "" && p.parts == nil:
			o, _, err = im.d.compare(id, p.name, t)
		case p.sum != sum:
			o = compareParts(t.parts(), p.parts)
		}
		switch {
		case err != nil:
			return r, err
		case o == differs:
			r.DiffersFrom = id
			continue
		case o == updated:
			p.parts, p.sum = withoutTexts(t.parts()), sum
		}
		im.plans[source] = plans
		return ImportResult{ID: id, Updated: o == updated, Older: o == older}, nil
	}
	r.Created = true
	im.plans[source] = append(plans, plan{parts: withoutTexts(t.parts()), sum: sum})
	return r, nil
}
