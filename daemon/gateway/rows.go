package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// view serves an operation that has a path.
type view struct {
	*op.Row
	headers []op.Field // of the response
	paths   []op.Field // of the response: texts with paths
	list    *op.Row    // lists the items of the path; nil: none
	show    *op.Row    // describes the item of the path; nil: none
	id      *op.Field  // of the response: its value is the path of a created item; nil: none
}

// rowRoutes returns the routes of the operations that have a path.
func rowRoutes() (list []route) {
	for _, r := range op.All() {
		if r.HTTP() != nil {
			list = append(list, newView(r).route())
		}
	}
	return list
}

func newView(r *op.Row) *view {
	v := &view{Row: r}
	parent, _, isItem := strings.Cut(r.HTTP().Pattern, "/{")
	for _, other := range op.All() {
		p := other.HTTP()
		if p == nil || p.Method != http.MethodGet {
			continue
		}
		switch {
		case isItem && p.Pattern == parent:
			v.list = other
		case isItem && p.Pattern == r.HTTP().Pattern:
			v.show = other
		}
		for _, f := range op.Fields(r.HTTP().Response) {
			if r.HTTP().Status == http.StatusCreated && p.Pattern == fmt.Sprintf("%s/{%s}", r.HTTP().Pattern, f.Name) {
				v.id = &f
			}
		}
	}
	for _, f := range op.Fields(r.HTTP().Response) {
		if f.Place == op.InHeader {
			v.headers = append(v.headers, f)
		}
		if f.Paths {
			v.paths = append(v.paths, f)
		}
	}
	return v
}

func (v *view) route() route {
	p := v.HTTP()
	r := route{
		method: p.Method, path: p.Pattern, summary: strings.TrimSuffix(v.Does, "."), status: p.Status, fails: p.Fails, run: v.run,
		in: p.Body, inName: p.BodyName, out: p.Response, outName: p.ResponseName,
		once: v.Repeats, big: p.Body != nil && v.Need == op.NeedWrite,
	}
	if v.OnStore {
		r.query = append(r.query, spaceParam)
	}
	for i := range p.Fields {
		switch f := &p.Fields[i]; {
		case f.Place == op.InQuery:
			r.query = append(r.query, *f)
		case f.Place == op.InHeader && f.Part == "If-Match":
			r.match = true
			r.fails = append(slices.Clone(r.fails), http.StatusPreconditionRequired)
		}
	}
	return r
}

func elemOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// run carries out the operation. The fields of its request come from the body, the path,
// the query, the headers, and the key.
func (v *view) run(c *call) (any, error) {
	in := v.NewRequest()
	if v.HTTP().Body != nil {
		if err := c.decode(in); err != nil {
			return nil, err
		}
	}
	if err := v.setAll(c, v.Row, in); err != nil {
		return nil, err
	}
	ctx := c.r.Context()
	if c.once != "" {
		sum, err := c.sumOf(in)
		if err != nil {
			return nil, err
		}
		ctx = client.WithOnce(ctx, c.once, sum)
	}
	var out reflect.Value
	use := func(d *client.Client) (err error) {
		if out, err = do(ctx, v.Row, d, in); err != nil {
			err = v.refused(c, d, err)
		}
		return err
	}
	err := error(nil)
	if v.OnStore {
		err = c.inSpace(c.text("space"), use)
	} else {
		err = use(c.daemon.Client)
	}
	if err != nil || v.HTTP().Response == nil {
		return nil, err
	}
	for i := range v.paths {
		text := out.Elem().FieldByIndex(v.paths[i].Index)
		text.SetString(c.g.hide(text.String()))
	}
	for i := range v.headers {
		f := &v.headers[i]
		c.w.Header().Set(f.Part, fmt.Sprint(out.Elem().FieldByIndex(f.Index)))
	}
	if v.id != nil {
		c.w.Header().Set("Location", fmt.Sprint(v.HTTP().Pattern, "/", out.Elem().FieldByIndex(v.id.Index)))
	}
	return out.Interface(), nil
}

// do carries out an operation with a path, and returns a pointer to its response.
func do(ctx context.Context, r *op.Row, d *client.Client, in any) (out reflect.Value, err error) {
	out = reflect.ValueOf(new(op.None))
	if r.HTTP().Response != nil {
		out = reflect.New(r.HTTP().Response)
	}
	return out, r.Do(ctx, d, in, out.Interface())
}

// setAll sets the fields of a request that are not in the body.
func (v *view) setAll(c *call, r *op.Row, in any) error {
	fields := r.HTTP().Fields
	for i := range fields {
		f := &fields[i]
		if err := v.set(c, f, reflect.ValueOf(in).Elem().FieldByIndex(f.Index)); err != nil {
			return err
		}
	}
	return nil
}

// set sets a field of the request that is not in the body.
func (v *view) set(c *call, f *op.Field, to reflect.Value) error {
	text := ""
	switch f.Place {
	case op.InPath:
		text = c.r.PathValue(f.Part)
	case op.InQuery:
		text = cmp.Or(c.text(f.Name), f.Default)
	case op.InHeader:
		text = c.r.Header.Get(f.Part)
	case op.OfKey:
		to.Set(reflect.ValueOf(c.key.Agents))
	}
	if text == "" {
		return nil
	}
	value := []byte(text)
	switch n, err := strconv.Atoi(text); {
	case op.IsText(elemOf(f.Type)):
		value, _ = json.Marshal(text) // a text has no error
	case err == nil && f.Place == op.InQuery:
		value = strconv.AppendInt(nil, int64(max(n, f.Min)), 10)
	}
	err := json.Unmarshal(value, to.Addr().Interface())
	switch _, valid := op.Positive(text); {
	case f.Place == op.InPath && (err != nil || to.CanUint() && !valid):
		at, _ := path.Split(c.r.URL.Path)
		return v.refused(c, nil, problemf(http.StatusNotFound, "not_found", "no item %s in %s", printable(text), printable(strings.TrimSuffix(at, "/"))))
	case err != nil:
		return invalidf("%s: %s", f.Name, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// refused returns the problem of an error. If the item in the path is missing, it names
// the path that lists the items. If the item has another state than If-Match, it contains
// the item.
func (v *view) refused(c *call, d *client.Client, err error) error {
	p := problemOf(err)
	switch {
	case p.Status == http.StatusNotFound && v.list != nil:
		p.fix("GET %s lists the %s", v.list.HTTP().Pattern, v.list.Subject())
	case p.Status == http.StatusPreconditionFailed && v.show != nil:
		in := v.show.NewRequest()
		if err := v.setAll(c, v.show, in); err != nil {
			return err
		}
		out, err := do(c.r.Context(), v.show, d, in)
		if err != nil {
			return v.refused(c, d, err)
		}
		p.Current, _ = out.Interface().(*op.Entry)
	}
	return p
}

// sumOf returns a digest of all that determines the effect of the request.
func (c *call) sumOf(in any) ([]byte, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	for _, part := range []string{c.r.Method, c.r.URL.Path, c.query.Encode(), strings.Join(c.r.Header.Values("If-Match"), ","), string(body)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return h.Sum(nil), nil
}
