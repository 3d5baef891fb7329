package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// reader is what a caller may see of variables: all of them, or the paths of a workload.
type reader struct {
	all       bool
	namespace string
	paths     []string
}

// variableReader says what the caller of a read may see. A workload reads the variables
// of its job, group and task, by their exact paths; nodes and servers read none.
func (s *Service) variableReader(c *rpc.Call) (reader, error) {
	if c.Identity.Claims == nil {
		return reader{all: true}, nil
	}
	w := c.Identity.Claims.WorkloadIdentityClaims
	if w == nil {
		return reader{}, nomad.ErrPermissionDenied
	}
	r := reader{namespace: w.Namespace, paths: []string{nomad.VariablesJobs}}
	alloc := s.snapshot().Alloc(nil, w.AllocationID)
	if alloc == nil || w.JobID == "" {
		return r, nil
	}
	job := nomad.VariablesJobs + "/" + w.JobID
	group := job + "/" + alloc.TaskGroup
	r.paths = append(r.paths, job, group)
	if w.TaskName != "" {
		r.paths = append(r.paths, group+"/"+w.TaskName)
	}
	return r, nil
}

func (r reader) sees(namespace, path string) bool {
	return r.all || namespace == r.namespace && slices.Contains(r.paths, path)
}

// shown is the metadata of a variable as the reader may see it: only who may write a
// variable sees who holds it.
func (r reader) shown(m *nomad.VariableMetadata) *nomad.VariableMetadata {
	if r.all || m.Lock == nil {
		return m
	}
	return withoutHolder(m)
}

// withoutHolder leaves out the ID of a lock.
func withoutHolder(m *nomad.VariableMetadata) *nomad.VariableMetadata {
	hidden, lock := *m, *m.Lock
	lock.ID = ""
	hidden.Lock = &lock
	return &hidden
}

func (s *Service) variableList(ctx context.Context, c *rpc.Call, req *nomad.VariablesListRequest) (*nomad.VariablesListResponse, error) {
	may, err := s.variableReader(c)
	if err != nil {
		return nil, err
	}
	ns := namespaceOf(req.Namespace)
	return read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.VariablesListResponse) error {
		all := snap.VariablesIn(ws, ns, req.Prefix)
		if ns == nomad.AllNamespacesSentinel {
			all = only(snap.Variables(ws), func(v *nomad.VariableEncrypted) bool { return hasPrefix(v.Path, req.Prefix) })
		} else if err := knownNamespace(snap, ns); err != nil {
			return err
		}
		found, next, err := list[*nomad.VariableEncrypted]{opts: &req.QueryOptions, order: byNamespace,
			at:       func(v *nomad.VariableEncrypted) cursor { return cursor{namespace: v.Namespace, id: v.Path} },
			filtered: func(v *nomad.VariableEncrypted) any { return may.shown(&v.VariableMetadata) },
			keep:     func(v *nomad.VariableEncrypted) bool { return may.sees(v.Namespace, v.Path) },
		}.page(all)
		if err != nil {
			return err
		}
		out.Data = each(found, func(v *nomad.VariableEncrypted) *nomad.VariableMetadata { return may.shown(&v.VariableMetadata) })
		out.NextToken = next
		out.Index = snap.TableIndex(state.TableVariables)
		return nil
	})
}

func (s *Service) variableRead(ctx context.Context, c *rpc.Call, req *nomad.VariablesReadRequest) (*nomad.VariablesReadResponse, error) {
	may, err := s.variableReader(c)
	ns := namespaceOf(req.Namespace)
	switch {
	case err != nil:
		return nil, err
	case req.Path == "":
		return nil, nomad.Errorf(400, "a variable needs a path")
	case !may.sees(ns, req.Path):
		return nil, nomad.ErrPermissionDenied
	}
	return read(ctx, s, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *nomad.VariablesReadResponse) error {
		if err := knownNamespace(snap, ns); err != nil {
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
		out.Data = &nomad.VariableDecrypted{VariableMetadata: *may.shown(&v.VariableMetadata), Items: items}
		return nil
	})
}

// decrypt returns the items of a variable.
func (s *Service) decrypt(ctx context.Context, v *nomad.VariableEncrypted) (nomad.VariableItems, error) {
	if len(v.Data) == 0 {
		return nil, nil
	}
	ctx, cancel := s.signing(ctx)
	defer cancel()
	text, err := s.cfg.Keyring.Decrypt(ctx, v.KeyID, v.Data)
	if err != nil {
		return nil, fmt.Errorf("variable %q: %w", v.Path, err)
	}
	var items nomad.VariableItems
	if err := json.Unmarshal(text, &items); err != nil {
		return nil, fmt.Errorf("variable %q does not hold items", v.Path) // what it holds is a secret
	}
	return items, nil
}

// encrypt makes what state keeps of items.
func (s *Service) encrypt(ctx context.Context, items nomad.VariableItems) (nomad.VariableData, error) {
	if items == nil {
		items = nomad.VariableItems{}
	}
	text, err := json.Marshal(items)
	if err != nil {
		return nomad.VariableData{}, fmt.Errorf("encode the items of a variable: %w", err)
	}
	ctx, cancel := s.signing(ctx)
	defer cancel()
	key := s.snapshot().ActiveRootKey(nil)
	if key == nil {
		return nomad.VariableData{}, errors.New("encrypt a variable: keyring has not been initialized yet")
	}
	data, err := s.cfg.Keyring.Encrypt(ctx, key.KeyID, text)
	return nomad.VariableData{Data: data, KeyID: key.KeyID}, err
}
