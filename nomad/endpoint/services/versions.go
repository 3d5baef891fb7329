package services

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/state"
)

// service identifies a service.
type service struct{ namespace, name string }

// moment identifies the contents of the tables on which versions depend.
type moment struct {
	store                *state.Store
	registrations, nodes uint64 // indexes of the tables
}

func momentOf(snap *state.Snapshot) moment {
	return moment{snap.Store(), snap.TableIndex(state.TableRegistrations), snap.TableIndex(state.TableNodes)}
}

// versions keeps the versions of services at the latest moment, because a change wakes many calls of Watch at once. It
// has only services with instances, so that the state bounds its size.
type versions struct {
	mu     sync.Mutex
	at     moment
	latest map[service]string
}

// find returns the version of a service at a moment, "" if it is not kept.
func (v *versions) find(at moment, of service) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.at != at {
		return ""
	}
	return v.latest[of]
}

// keep keeps the version of a service at a moment, unless that is older than the one of the others.
func (v *versions) keep(at moment, of service, version string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.at != at {
		if v.at.store == at.store && (v.at.registrations > at.registrations || v.at.nodes > at.nodes) {
			return
		}
		v.at, v.latest = at, map[service]string{}
	}
	v.latest[of] = version
}

// reader computes the versions of services in one snapshot.
type reader struct {
	snap  *state.Snapshot
	nodes nodes
	at    moment
	kept  *versions
	text  []byte // reused
}

// version returns the digest of the registrations of a service. It is the same on all servers. A change of the
// registrations fires ws.
func (r *reader) version(ws memdb.WatchSet, of service) string {
	rows := r.snap.RegistrationsByName(ws, of.namespace, of.name)
	if kept := r.kept.find(r.at, of); kept != "" {
		return kept
	}
	r.text = r.text[:0]
	for row := range rows {
		p := r.nodes.of(row.NodeID)
		for _, text := range []string{row.ID, p.name, p.address} {
			r.text = binary.BigEndian.AppendUint64(r.text, uint64(len(text)))
			r.text = append(r.text, text...)
		}
		r.text = binary.BigEndian.AppendUint64(r.text, row.ModifyIndex)
	}
	sum := sha256.Sum256(r.text)
	is := hex.EncodeToString(sum[:16])
	if len(r.text) > 0 {
		r.kept.keep(r.at, of, is)
	}
	return is
}
