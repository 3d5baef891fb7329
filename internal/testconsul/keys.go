package testconsul

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"
)

// maxValue limits the value of a key.
const maxValue = 512 << 10

// PutKey writes a key.
func (a *Agent) PutKey(key, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.putKey(key, []byte(value), 0)
}

// DeleteKey removes a key.
func (a *Agent) DeleteKey(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deleteKey(key)
}

func (a *Agent) putKey(key string, value []byte, flags uint64) {
	index := a.touch("kv/" + key)
	created := index
	if old := a.keys[key]; old != nil {
		created = old.CreateIndex
	}
	a.keys[key] = &api.KVPair{Key: key, Value: value, Flags: flags, CreateIndex: created, ModifyIndex: index}
}

func (a *Agent) deleteKey(key string) {
	if a.keys[key] != nil {
		delete(a.keys, key)
		a.touch("kv/" + key)
	}
}

// readKey serves a key, the keys with a prefix, or their names.
func readKey(c *call) (any, uint64, error) {
	key, q := c.PathValue("key"), c.URL.Query()
	if q.Has("recurse") || q.Has("keys") {
		return c.readKeys(key)
	}
	index := c.a.at("kv/" + key)
	if err := c.need("read", "key", key); err != nil {
		return nil, 0, err
	}
	pair := c.a.keys[key]
	switch {
	case pair == nil:
		return nil, index, refuse(http.StatusNotFound, "")
	case q.Has("raw"):
		return pair.Value, index, nil
	}
	return []*api.KVPair{pair}, index, nil
}

// readKeys serves the keys with a prefix that the caller may read. The index is that of the last change below it.
func (c *call) readKeys(prefix string) (any, uint64, error) {
	index := c.a.base
	for subject, at := range c.a.touched {
		if key, ok := strings.CutPrefix(subject, "kv/"); ok && strings.HasPrefix(key, prefix) {
			index = max(index, at)
		}
	}
	pairs, names, separator := []*api.KVPair{}, []string{}, c.URL.Query().Get("separator")
	for _, key := range slices.Sorted(maps.Keys(c.a.keys)) {
		if !strings.HasPrefix(key, prefix) || !c.who.allow("read", "key", key) {
			continue
		}
		pairs = append(pairs, c.a.keys[key])
		if head, _, found := strings.Cut(key[len(prefix):], separator); found && separator != "" {
			key = prefix + head + separator
		}
		names = append(names, key)
	}
	switch {
	case len(pairs) == 0:
		return nil, index, refuse(http.StatusNotFound, "")
	case c.URL.Query().Has("keys"):
		return slices.Compact(names), index, nil
	}
	return pairs, index, nil
}

func writeKey(c *call) (any, error) {
	key := c.PathValue("key")
	if key == "" {
		return nil, c.invalid("Missing key name")
	}
	if err := c.need("write", "key", key); err != nil {
		return nil, err
	}
	value, err := io.ReadAll(io.LimitReader(c.Body, maxValue+1))
	if err != nil {
		return nil, err
	}
	if len(value) > maxValue {
		return nil, refuse(http.StatusRequestEntityTooLarge, "Request body too large, max size: %d bytes", maxValue)
	}
	var flags uint64
	if text := c.URL.Query().Get("flags"); text != "" {
		if flags, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, c.invalid("Invalid flags")
		}
	}
	c.a.putKey(key, value, flags)
	return true, nil
}

func deleteKey(c *call) (any, error) {
	key := c.PathValue("key")
	keys := []string{key}
	if c.URL.Query().Has("recurse") {
		keys = nil
		for k := range c.a.keys {
			if strings.HasPrefix(k, key) {
				keys = append(keys, k)
			}
		}
	}
	for _, k := range keys {
		if err := c.need("write", "key", k); err != nil {
			return nil, err
		}
	}
	for _, k := range keys {
		c.a.deleteKey(k)
	}
	return true, nil
}
