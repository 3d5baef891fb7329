package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/consul-template/dependency"
	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/internal/consulkey"
)

// errKey omits the argument, which can be made of secret values.
var errKey = errors.New("malformed key: want key[?ns=namespace][@datacenter], with single slashes and a variable path of at most " +
	"128 bytes, in which each byte other than a letter, a digit, '-', '_' and '/' has three")

// existingPair is the result of keyExistsGet.
type existingPair struct {
	dependency.KeyPair
	Exists bool
}

// keyValue returns the value of a key. While the key does not exist, the template is not rendered.
func (e *engine) keyValue(arg string) (string, error) {
	pair, err := e.keyPair(required, arg)
	if err != nil || pair == nil {
		return "", err
	}
	return pair.Value, nil
}

// keyExists reports whether a key exists.
func (e *engine) keyExists(arg string) (bool, error) {
	pair, err := e.keyPair(optional, arg)
	return pair != nil, err
}

// keyOrDefault returns the value of a key, or the other text if the key does not exist or is empty.
func (e *engine) keyOrDefault(arg, other string) (string, error) {
	pair, err := e.keyPair(optional, arg)
	if err != nil || pair == nil {
		return other, err
	}
	return cmp.Or(pair.Value, other), nil
}

// keyExistsGet returns a key with the field Exists, which is false if the key does not exist.
func (e *engine) keyExistsGet(arg string) (*existingPair, error) {
	pair, err := e.keyPair(optional, arg)
	if err != nil || pair == nil {
		return &existingPair{}, err
	}
	return &existingPair{KeyPair: *pair, Exists: true}, nil
}

// keyPair returns a key, or nil if it does not exist.
func (e *engine) keyPair(kind kind, arg string) (*dependency.KeyPair, error) {
	if arg == "" {
		return nil, nil
	}
	a, ok, err := parseConsul(e.req, dependency.KVGetQueryRe, arg)
	if !ok {
		err = errKey
	}
	if err == nil {
		err = a.ownDatacenter(e.req)
	}
	if err != nil {
		return nil, err
	}
	path, err := consulkey.Path(a.parts["key"])
	if err != nil {
		return nil, errKey // err contains the key
	}
	k := key{kind: kind, path: path, namespace: a.namespace, region: e.req.Region, consul: consul{label: a.label(a.parts["key"])}}
	if d := e.ask(k); d != nil {
		if kind == required && d.pair == nil {
			e.evaluated.lacks(k)
		}
		return d.pair, nil
	}
	return nil, nil
}

// pairsOf returns the function tree: the keys that begin with a prefix. needsSome is set for safeTree: then an empty list
// counts as missing data.
func (e *engine) pairsOf(needsSome bool) func(string) ([]*dependency.KeyPair, error) {
	return func(arg string) ([]*dependency.KeyPair, error) {
		return e.treeOf(arg, needsSome, func(rest string) bool { return rest != "" })
	}
}

// levelOf returns the function ls: like tree, without the keys of deeper levels.
func (e *engine) levelOf(needsSome bool) func(string) ([]*dependency.KeyPair, error) {
	return func(arg string) ([]*dependency.KeyPair, error) {
		return e.treeOf(arg, needsSome, func(rest string) bool { return rest != "" && !strings.Contains(rest, "/") })
	}
}

func (e *engine) treeOf(arg string, needsSome bool, accept func(rest string) bool) ([]*dependency.KeyPair, error) {
	out := []*dependency.KeyPair{}
	if arg == "" {
		return out, nil
	}
	k, err := e.treeKey(arg)
	if err != nil {
		return nil, err
	}
	d := e.ask(k)
	if d == nil {
		return out, nil
	}
	for _, pair := range d.pairs {
		if accept(pair.Key) {
			out = append(out, pair)
		}
	}
	if needsSome && len(out) == 0 {
		e.evaluated.lacks(k)
	}
	return out, nil
}

// treeKey parses the argument of tree and ls. The prefix "/" has all keys.
func (e *engine) treeKey(arg string) (key, error) {
	a, ok, err := parseConsul(e.req, dependency.KVListQueryRe, arg)
	if !ok {
		err = errKey
	}
	if err == nil {
		err = a.ownDatacenter(e.req)
	}
	if err != nil {
		return key{}, err
	}
	prefix := a.parts["prefix"]
	if prefix == "/" {
		prefix = ""
	}
	path, err := consulkey.Prefix(prefix)
	if err != nil {
		return key{}, errKey // err contains the prefix
	}
	return key{kind: tree, path: path, namespace: a.namespace, region: e.req.Region,
		consul: consul{label: a.label(a.parts["prefix"]), prefix: prefix}}, nil
}

// pairOf returns the key of a variable, or nil if the variable is not one.
func pairOf(v *nomadapi.Variable) *dependency.KeyPair {
	if v == nil {
		return nil
	}
	name, ok := consulkey.Key(v.Path)
	value, has := v.Items[consulkey.Item]
	if !ok || !has {
		return nil
	}
	return &dependency.KeyPair{Path: name, Key: name, Value: value, CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex}
}

func decodePair(k key, body []byte) (content, error) {
	var found nomadapi.Variable
	if json.Unmarshal(body, &found) != nil || found.Path != k.path {
		return content{}, errMalformed
	}
	return content{pair: pairOf(&found)}, nil
}

func decodeTree(k key, body []byte) (content, error) {
	var list []*nomadapi.Variable
	if json.Unmarshal(body, &list) != nil {
		return content{}, errMalformed
	}
	pairs := []*dependency.KeyPair{}
	for _, v := range list {
		pair := pairOf(v)
		if pair == nil || !strings.HasPrefix(pair.Path, k.prefix) {
			continue
		}
		pair.Key = strings.TrimLeft(strings.TrimPrefix(pair.Path, k.prefix), "/")
		pairs = append(pairs, pair)
	}
	slices.SortFunc(pairs, func(a, b *dependency.KeyPair) int { return strings.Compare(a.Path, b.Path) })
	return content{pairs: pairs}, nil
}
