package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Contents is everything that a state database has about a node and its allocations.
type Contents struct {
	Allocs map[string]AllocContents
	Node   idtoken.Token // the node's identity
}

// AllocContents is the stored state of one allocation. Networks and Volumes have the form of the
// build that wrote them. They are nil without a value.
type AllocContents struct {
	Alloc             *nomad.Allocation
	Deploy            *nomad.AllocDeploymentStatus
	Identities        []*message.SignedWorkloadIdentity
	Networks, Volumes any
	Tasks             map[string]Task
}

// Read reads the database of a stopped agent and changes nothing. dir is the state directory, or the
// data_dir above it. An error that wraps ErrInUse means that an agent is running.
func Read(dir string) (*Contents, error) {
	path := filepath.Join(dir, "state.db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join(dir, "client", "state.db")
	}
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open client state database: %w", err)
	} else if info.Size() == 0 {
		return nil, fmt.Errorf("client state database %s is empty", path)
	}
	if err := checkPages(path); err != nil {
		return nil, err
	}
	b, err := openFile(path, &bolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer b.Close() // no error matters: read only
	var out *Contents
	err = guard(path, func() error {
		if err := checkForm(b, path, true); err != nil {
			return err
		}
		out, err = contentsOf(&DB{bolt: b})
		return err
	})
	return out, err
}

func contentsOf(db *DB) (*Contents, error) {
	out := &Contents{Allocs: map[string]AllocContents{}}
	var err error
	if out.Node, err = db.NodeIdentity(); err != nil {
		return nil, err
	}
	allocs, errs := db.Allocs()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, a := range allocs {
		one := AllocContents{Alloc: a}
		if one.Deploy, err = db.DeployStatus(a.ID); err != nil {
			return nil, err
		}
		if one.Identities, err = db.Identities(a.ID); err != nil {
			return nil, err
		}
		if one.Tasks, err = db.Tasks(a.ID); err != nil {
			return nil, err
		}
		for key, to := range map[string]*any{"network_status": &one.Networks, "alloc_volume": &one.Volumes} {
			v, err := allocValue[any](db, a.ID, []byte(key))
			if err != nil {
				return nil, err
			}
			if v != nil {
				*to = *v
			}
		}
		out.Allocs[a.ID] = one
	}
	return out, nil
}
