package consulapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/consulkey"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// kv returns a key, the keys below a prefix (recurse), or their names (keys).
func kv(c *call) (*answer, error) {
	switch {
	case isSet(c.Request, "keys"):
		return c.keys()
	case isSet(c.Request, "recurse"):
		return c.tree()
	}
	return c.key()
}

// notFound is the answer about a key that does not exist.
func notFound() *answer { return &answer{status: http.StatusNotFound} }

// key returns one key, or its value with the parameter raw.
func (c *call) key() (*answer, error) {
	if strings.HasSuffix(c.Param, "/") {
		return notFound(), nil // a folder is not a key here
	}
	path, err := consulkey.Path(c.Param)
	if err != nil {
		return nil, invalidKey(err)
	}
	req := message.VariablesReadRequest{Path: path, QueryOptions: c.opts}
	var resp message.VariablesReadResponse
	if err := c.RPC().Call(c.Context(), "Variables.Read", &req, &resp); err != nil {
		return nil, err
	}
	c.note(resp.QueryMeta)
	if resp.Data == nil {
		return notFound(), nil
	}
	pair, ok := pairOf(resp.Data)
	switch {
	case !ok:
		return notFound(), nil
	case isSet(c.Request, "raw"):
		// A browser must not show a value as a page.
		c.Reply.Header().Set("Content-Security-Policy", "sandbox")
		return &answer{raw: pair.Value, kind: "text/plain; charset=utf-8"}, nil
	}
	return &answer{body: []kvPair{pair}}, nil
}

// pairOf returns the key of a variable. It reports false for a variable that is not a key.
func pairOf(v *variable.Decrypted) (kvPair, bool) {
	key, isKey := consulkey.Key(v.Path)
	value, hasValue := v.Items[consulkey.Item]
	if !isKey || !hasValue {
		return kvPair{}, false
	}
	pair := kvPair{Key: key, CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex}
	if value != "" {
		pair.Value = []byte(value) // null if it is empty, as in Consul
	}
	return pair, true
}

// tree returns the keys below a prefix that the caller may read.
func (c *call) tree() (*answer, error) {
	opts, err := c.below()
	if err != nil {
		return nil, err
	}
	req := message.VariablesTreeRequest{QueryOptions: opts}
	var resp message.VariablesTreeResponse
	if err := c.RPC().Call(c.Context(), "Variables.Tree", &req, &resp); err != nil {
		return nil, err
	}
	c.note(resp.QueryMeta)
	rows := []kvPair{}
	for _, v := range resp.Data {
		if pair, ok := pairOf(v); ok {
			rows = append(rows, pair)
		}
	}
	if len(rows) == 0 {
		return notFound(), nil
	}
	slices.SortFunc(rows, func(a, b kvPair) int { return cmp.Compare(a.Key, b.Key) })
	return &answer{body: rows}, nil
}

// keys returns the names of the keys below a prefix that the caller may list. With a separator, a name ends at the first
// one after the prefix.
func (c *call) keys() (*answer, error) {
	opts, err := c.below()
	if err != nil {
		return nil, err
	}
	req := message.VariablesListRequest{QueryOptions: opts}
	var resp message.VariablesListResponse
	if err := c.RPC().Call(c.Context(), "Variables.List", &req, &resp); err != nil {
		return nil, err
	}
	c.note(resp.QueryMeta)
	names, separator := []string{}, c.Query.Get("separator")
	for _, v := range resp.Data {
		if key, ok := consulkey.Key(v.Path); ok {
			names = append(names, shortened(key, c.Param, separator))
		}
	}
	if len(names) == 0 {
		return notFound(), nil
	}
	slices.Sort(names)
	return &answer{body: slices.Compact(names)}, nil
}

// below returns the options of a list of the variables below the prefix of the path.
func (c *call) below() (message.QueryOptions, error) {
	opts := c.opts
	var err error
	if opts.Prefix, err = consulkey.Prefix(c.Param); err != nil {
		return opts, invalidKey(err)
	}
	return opts, nil
}

func invalidKey(err error) error { return apierror.Errorf(http.StatusBadRequest, "%v", err) }

// shortened returns a key up to the first separator after the prefix.
func shortened(key, prefix, separator string) string {
	rest := strings.TrimPrefix(key, prefix)
	if i := strings.Index(rest, separator); separator != "" && i >= 0 {
		return key[:len(key)-len(rest)+i+len(separator)]
	}
	return key
}
