package state

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"
	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// errUnknown is wrapped by errors about values that this version does not understand, as
// opposed to damaged ones.
var errUnknown = errors.New("unknown format")

// reader checks that a value can be read.
type reader func(raw []byte) error

// contents are the keys and buckets that a bucket may have.
type contents struct {
	keys    map[string]reader
	anyKey  reader                              // for every other key, if set
	buckets func(name string) (*contents, bool) // nil means none
}

// layout are the buckets of format version 2, of Nomad 2.0 and of this project. Values that
// only Nomad's client uses may have any form.
var layout = map[string]*contents{
	"meta":                   {keys: map[string]reader{"version": text, "upgraded": text, "open_nomad": text}},
	"allocations":            {buckets: func(string) (*contents, bool) { return allocContents, true }},
	"check_results":          checkResults,
	"devicemanager":          {keys: map[string]reader{"plugin_state": single}},
	"drivermanager":          {keys: map[string]reader{"plugin_state": single}},
	"dynamicplugins":         {keys: map[string]reader{"registry_state": single}},
	"nodemeta":               {anyKey: single},
	"host_volumes_to_create": {anyKey: single},
	"csi_mounts":             {anyKey: record[CSIMount]},
	"consul_tokens":          {anyKey: record[ConsulToken]},
	"vault_tokens":           {anyKey: record[VaultToken]},
	"csi_instances":          {anyKey: record[CSIInstance]},
	"host_volume_paths":      {keys: map[string]reader{"paths": single}},
	"node":                   {keys: map[string]reader{"node_registration": record[nomad.NodeRegistration], "node_boot": record[nodeBoot]}},
	"node_identity":          {keys: map[string]reader{"node_identity_state": record[nodeIdentity], "node_identity_renewal": record[renewal]}},
}

// checkResults has a key for each check. Earlier versions of Nomad have a bucket for each allocation.
var checkResults = &contents{anyKey: single, buckets: func(string) (*contents, bool) { return &contents{anyKey: single}, true }}

// allocContents is the layout of an allocation's bucket. Function readAlloc reads its first key.
var allocContents = &contents{
	keys: map[string]reader{"alloc": single, "deploy_status": wrapped(record[nomad.AllocDeploymentStatus]), "network_status": single,
		"acknowledged_state": single,
		"alloc_volume":       single, "alloc_identities": wrapped(records[message.SignedWorkloadIdentity]),
		"alloc_consul_acl_token_identities": single},
	buckets: func(name string) (*contents, bool) { return taskContents, strings.HasPrefix(name, taskPrefix) },
}

// taskContents is the layout of a task's bucket.
var taskContents = &contents{keys: map[string]reader{"local_state": localState, "task_state": record[nomad.TaskState]}}

// checkLayout returns an error for a bucket or key outside the layout, or a value that cannot be
// read.
func checkLayout(tx *bolt.Tx) error {
	return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		c := layout[string(name)]
		if c == nil {
			return fmt.Errorf("%w of the file: it has the bucket %q", errUnknown, name)
		}
		return c.check(string(name), b)
	})
}

// check compares the bucket at path with its layout.
func (c *contents) check(path string, b *bolt.Bucket) error {
	return b.ForEach(func(key, raw []byte) error {
		at := path + "/" + string(key)
		if raw == nil {
			if c.buckets != nil {
				if below, ok := c.buckets(string(key)); ok {
					return below.check(at, b.Bucket(key))
				}
			}
			return fmt.Errorf("%w of the file: it has the bucket %q", errUnknown, at)
		}
		read := c.keys[string(key)]
		if read == nil {
			read = c.anyKey
		}
		if read == nil {
			return fmt.Errorf("%w of the file: it has the key %q", errUnknown, at)
		}
		if err := read(raw); err != nil {
			return fmt.Errorf("read %q: %w", at, err)
		}
		return nil
	})
}

// text accepts every value.
func text([]byte) error { return nil }

// single accepts one msgpack value of any form.
func single(raw []byte) error {
	_, err := decodeOne[any](raw)
	return err
}

// decodeOne decodes a value and returns an error if bytes follow it.
func decodeOne[T any](raw []byte) (v T, err error) {
	dec := msgpack.NewDecoderBytes(raw, codec.MsgpackHandle)
	if err := dec.Decode(&v); err != nil {
		return v, err
	}
	if n := len(raw) - dec.NumBytesRead(); n > 0 {
		return v, fmt.Errorf("%d bytes follow the value", n)
	}
	return v, nil
}

// record accepts a map that has only fields of T, with values of their types.
func record[T any](raw []byte) error {
	if _, err := mapOf(raw, fieldsOf[T]()); err != nil {
		return err
	}
	_, err := decodeOne[T](raw)
	return err
}

// records accepts a list of what record accepts.
func records[T any](raw []byte) error {
	all, err := decodeOne[[]msgpack.Raw](raw)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := record[T](one); err != nil {
			return err
		}
	}
	return nil
}

// mapOf decodes a map and returns an error if it has other keys than the known ones.
func mapOf(raw []byte, known []string) (map[string]any, error) {
	got, err := decodeOne[map[string]any](raw)
	if err != nil {
		return nil, err
	}
	if got == nil {
		return nil, fmt.Errorf("%w of the value: it is empty", errUnknown)
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("%w of the value: it has the key %q", errUnknown, key)
		}
	}
	return got, nil
}

// fieldsOf returns the names of the fields of the struct T.
func fieldsOf[T any]() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if f.IsExported() && !f.Anonymous {
			names = append(names, f.Name)
		}
	}
	return names
}

// wrapped accepts what read accepts, also as the only value of a map.
func wrapped(read reader) reader {
	return func(raw []byte) error {
		if inner := unwrap(raw); inner != nil {
			return read(inner)
		}
		return nil
	}
}

// unwrap returns the value in a map with one key if it is a map, a list or nil, and any other
// value unchanged. For a nil value it returns nil. Nomad 2.0 stores an allocation in such a map,
// and may store other values so.
func unwrap(raw []byte) []byte {
	outer, err := decodeOne[map[string]msgpack.Raw](raw)
	if err != nil || len(outer) != 1 {
		return raw
	}
	for _, inner := range outer {
		if len(inner) == 0 { // nil
			return nil
		}
		switch v, _ := decodeOne[any](inner); v.(type) { // it was decoded once, so that it has no error
		case map[string]any, []any:
			return inner
		}
	}
	return raw
}
