package services

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// TestVersions_Kept checks that the kept versions are those that each snapshot has, also of snapshots that are older than
// the kept ones, and after a restore.
func TestVersions_Kept(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	pick := func(prefix string) string { return fmt.Sprint(prefix, rng.IntN(4)) }
	of, s, index := new(Service), state.New(nil), uint64(1)
	snaps := []*state.Snapshot{s.Snapshot()}
	var watched []message.ServiceVersion
	for i := range 4 {
		watched = append(watched, message.ServiceVersion{Name: fmt.Sprint("s", i)})
	}
	for range 500 {
		index++
		var err error
		switch rng.IntN(20) {
		case 0: // restored, at an index that the other store had too
			s, index = state.New(nil), 1+rng.Uint64N(index)
		case 1, 2, 3:
			n := &nomad.Node{ID: pick("n"), SecretID: nomad.NewID(), Name: pick("name"), HTTPAddr: pick("10.0.0.") + ":4646"}
			_, err = s.RegisterNode(index, &message.NodeRegisterRequest{Node: n})
		case 4, 5, 6, 7, 8:
			for r := range s.Snapshot().Registrations(nil) {
				_, err = s.DeleteRegistration(index, &message.ServiceRegistrationDeleteByIDRequest{ID: r.ID,
					WriteRequest: message.WriteRequest{Namespace: r.Namespace}})
				break
			}
		default:
			_, err = s.UpsertRegistrations(index, &message.ServiceRegistrationUpsertRequest{Services: []*catalog.Registration{{ID: pick("id"),
				ServiceName: pick("s"), Namespace: "default", NodeID: pick("n"), AllocID: "a", JobID: "j", Address: pick("10.0.1."), Port: 1}}})
		}
		if err != nil {
			t.Logf("index %d: %v", index, err) // such as a duplicate secret
		}
		snaps = append(snaps, s.Snapshot())
		for range 3 {
			snap := snaps[max(0, len(snaps)-1-rng.IntN(4))]
			got, want := of.changed(snap, memdb.NewWatchSet(), watched), new(Service).changed(snap, memdb.NewWatchSet(), watched)
			if !slices.EqualFunc(got, want, func(a, b *message.ServiceState) bool { return a.Version == b.Version }) {
				t.Fatalf("versions at index %d differ from those of a new Service", snap.TableIndex(state.TableRegistrations))
			}
		}
	}
}

// TestVersions_Bound checks that names without instances are not kept.
func TestVersions_Bound(t *testing.T) {
	of, snap := new(Service), state.New(nil).Snapshot()
	for i := range 100 {
		of.changed(snap, nil, []message.ServiceVersion{{Name: fmt.Sprint("s", i)}})
	}
	if n := len(of.versions.latest); n != 0 {
		t.Errorf("%d services are kept, want none", n)
	}
}
