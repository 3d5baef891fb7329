package variables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// shown returns the metadata of a variable for the caller. The lock ID is included only for
// callers with write access.
func shown(c *rpc.Call, m *variable.Metadata) *variable.Metadata {
	if m.Lock == nil || c.Access.Allows(acl.OfVariable(m.Namespace, m.Path, acl.VariableWrite)) {
		return m
	}
	return withoutHolder(m)
}

// need checks the caller's right on a variable. The checked path is exactly the path
// that is looked up, since paths have no aliases.
func need(c *rpc.Call, namespace, path string, op acl.VariableCapability) error {
	if err := handler.NoNode(c); err != nil {
		return err
	}
	return c.Access.Need(acl.OfVariable(namespace, path, op))
}

// withoutHolder returns a copy of the metadata without the lock ID.
func withoutHolder(m *variable.Metadata) *variable.Metadata {
	hidden, lock := *m, *m.Lock
	lock.ID = ""
	hidden.Lock = &lock
	return &hidden
}

// List returns the metadata of the variables that the caller may list.
func (s *Service) List(ctx context.Context, c *rpc.Call, req *message.VariablesListRequest) (*message.VariablesListResponse, error) {
	ns := handler.NamespaceOf(req.Namespace)
	if err := handler.NoNode(c); err != nil {
		return nil, err
	}
	c.Access.MarkChecked() // each variable is checked below
	// A caller without any right in the namespace gets an empty list, as tools expect, also
	// when the namespace does not exist.
	blind := ns != nomad.AllNamespacesSentinel && !c.Access.AllowsSearch(ns)
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.VariablesListResponse) error {
			if out.Index = snap.TableIndex(state.TableVariables); blind {
				return nil
			}
			all := snap.VariablesIn(ws, ns, req.Prefix)
			if ns == nomad.AllNamespacesSentinel {
				all = page.Only(snap.Variables(ws), func(v *variable.Encrypted) bool { return strings.HasPrefix(v.Path, req.Prefix) })
			} else if err := handler.KnownNamespace(snap, ns); err != nil {
				return err
			}
			found, next, err := page.List[*variable.Encrypted]{Opts: &req.QueryOptions, Order: page.ByNamespace,
				At:       func(v *variable.Encrypted) page.Cursor { return page.Cursor{Namespace: v.Namespace, ID: v.Path} },
				Filtered: func(v *variable.Encrypted) any { return shown(c, &v.Metadata) },
				Keep: func(v *variable.Encrypted) bool {
					return c.Access.Allows(acl.OfVariable(v.Namespace, v.Path, acl.VariableList))
				},
			}.Page(all)
			if err != nil {
				return err
			}
			out.Data = page.Each(found, func(v *variable.Encrypted) *variable.Metadata { return shown(c, &v.Metadata) })
			out.NextToken = next
			return nil
		})
}

// Read returns a variable with its items, or nil if it does not exist.
func (s *Service) Read(ctx context.Context, c *rpc.Call, req *message.VariablesReadRequest) (*message.VariablesReadResponse, error) {
	ns := handler.NamespaceOf(req.Namespace)
	if err := need(c, ns, req.Path, acl.VariableRead); err != nil {
		return nil, err
	}
	if req.Path == "" {
		return nil, apierror.Errorf(400, "missing variable path")
	}
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.VariablesReadResponse) error {
			if err := handler.KnownNamespace(snap, ns); err != nil {
				return err
			}
			v := snap.Variable(ws, ns, req.Path)
			out.Index = snap.TableIndex(state.TableVariables)
			if v == nil {
				return nil
			}
			out.Index = v.ModifyIndex
			items, err := s.decrypt(ctx, v)
			if err != nil {
				return err
			}
			out.Data = &variable.Decrypted{Metadata: *shown(c, &v.Metadata), Items: items}
			return nil
		})
}

// decrypt returns the items of a variable.
func (s *Service) decrypt(ctx context.Context, v *variable.Encrypted) (variable.Items, error) {
	if len(v.Data) == 0 {
		return nil, nil
	}
	ctx, cancel := s.Signing(ctx)
	defer cancel()
	text, err := s.cfg.Keyring.Decrypt(ctx, v.KeyID, v.Data)
	if err != nil {
		return nil, fmt.Errorf("variable %q: %w", v.Path, err)
	}
	var items variable.Items
	if err := json.Unmarshal(text, &items); err != nil {
		return nil, fmt.Errorf("variable %q has malformed items", v.Path) // err is omitted, since it may contain the secret
	}
	return items, nil
}

// encrypt returns the encrypted items, as stored in state.
func (s *Service) encrypt(ctx context.Context, items variable.Items) (variable.Ciphertext, error) {
	if items == nil {
		items = variable.Items{}
	}
	text, err := json.Marshal(items)
	if err != nil {
		return variable.Ciphertext{}, fmt.Errorf("encode the items of a variable: %w", err)
	}
	ctx, cancel := s.Signing(ctx)
	defer cancel()
	key := s.Snapshot().ActiveRootKey(nil)
	if key == nil {
		return variable.Ciphertext{}, errors.New("encrypt a variable: keyring has not been initialized yet")
	}
	data, err := s.cfg.Keyring.Encrypt(ctx, key.KeyID, text)
	return variable.Ciphertext{Data: data, KeyID: key.KeyID}, err
}

// Keyring encrypts the items of variables. It waits for the key until ctx ends.
type Keyring interface {
	Encrypt(ctx context.Context, keyID string, text []byte) ([]byte, error)
	Decrypt(ctx context.Context, keyID string, data []byte) ([]byte, error)
}
