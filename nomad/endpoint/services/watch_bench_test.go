package services

import (
	"fmt"
	"testing"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// watchedState returns 50,000 instances on 1,000 nodes, and maxWatched services with their versions.
func watchedState(b *testing.B) (*state.Store, []message.ServiceVersion) {
	b.Helper()
	const nodes, instances = 1000, 50_000
	s, index := state.New(nil), uint64(10)
	next := func() uint64 { index++; return index }
	for i := range nodes {
		n := &nomad.Node{ID: nomad.NewID(), SecretID: nomad.NewID(), Name: fmt.Sprint("node", i), HTTPAddr: "10.0.0.1:4646"}
		if _, err := s.RegisterNode(next(), &message.NodeRegisterRequest{Node: n}); err != nil {
			b.Fatal(err)
		}
	}
	var ids []string
	for n := range s.Snapshot().Nodes(nil) {
		ids = append(ids, n.ID)
	}
	var rows []*catalog.Registration
	for i := range instances {
		alloc := nomad.NewID()
		rows = append(rows, &catalog.Registration{ID: catalog.ID(alloc, "t", "web", "http"), ServiceName: fmt.Sprint("s", i%maxWatched),
			Namespace: "default", NodeID: ids[i%nodes], AllocID: alloc, JobID: "j", Address: "10.0.0.1", Port: 8080})
	}
	if _, err := s.UpsertRegistrations(next(), &message.ServiceRegistrationUpsertRequest{Services: rows}); err != nil {
		b.Fatal(err)
	}
	var watched []message.ServiceVersion
	for i := range maxWatched {
		watched = append(watched, message.ServiceVersion{Name: fmt.Sprint("s", i)})
	}
	for done := 0; done < maxWatched; {
		for _, one := range new(Service).changed(s.Snapshot(), memdb.NewWatchSet(), watched) {
			var i int
			if _, err := fmt.Sscanf(one.Name, "s%d", &i); err != nil {
				b.Fatal(err)
			}
			watched[i].Version = one.Version
			done++
		}
	}
	return s, watched
}

// BenchmarkWatch measures a round of Watch for maxWatched services after a change of another service: of the first call
// that wakes up, and of the next ones.
func BenchmarkWatch(b *testing.B) {
	s, watched := watchedState(b)
	round := func(b *testing.B, of *Service) {
		if got := of.changed(s.Snapshot(), memdb.NewWatchSet(), watched); len(got) > 0 {
			b.Fatalf("%d services have changed", len(got))
		}
	}
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			round(b, new(Service))
		}
	})
	b.Run("next", func(b *testing.B) {
		b.ReportAllocs()
		of := new(Service)
		round(b, of)
		for b.Loop() {
			round(b, of)
		}
	})
}
