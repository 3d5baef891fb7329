package state_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// limited returns a state in which two namespaces share a quota.
func limited(t *testing.T) (*state.Store, func() uint64) {
	t.Helper()
	s, index := state.New(slog.New(slog.DiscardHandler)), uint64(10)
	next := func() uint64 { index++; return index }
	if _, err := s.UpsertQuotas(next(), &message.QuotaUpsertRequest{Quotas: []*quota.Spec{{Name: "q"}, {Name: "other"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.UpsertNamespaces(next(),
		&message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a", Quota: "q"}, {Name: "b", Quota: "q"}}}); err != nil {
		t.Fatal(err)
	}
	return s, next
}

func TestQuotaOfVariables(t *testing.T) {
	s, next := limited(t)
	put := func(namespace, path string, size int) error {
		v := &variable.Encrypted{Metadata: variable.Metadata{Namespace: namespace, Path: path},
			Ciphertext: variable.Ciphertext{Data: make([]byte, size)}}
		_, _, err := s.ApplyVariable(next(),
			&message.VarApplyStateRequest{Op: variable.OpSet, Var: v, Allowance: &quota.VariablesAllowance{Quota: "q", Bytes: 100}})
		return err
	}
	for i, c := range []struct {
		namespace, path string
		size            int
		fits            bool
	}{
		{"a", "x", 60, true}, {"b", "x", 41, false}, {"b", "x", 40, true}, {"a", "y", 1, false}, {"a", "x", 61, false},
		{"a", "x", 50, true}, {"b", "y", 10, true}, {"b", "y", 10, true}, {"b", "y", 11, false},
	} {
		err := put(c.namespace, c.path, c.size)
		if (err == nil) != c.fits || err != nil && !strings.Contains(err.Error(), `quota "q" allows 100 bytes of variables`) {
			t.Errorf("%d: %v, fits is %t", i, err, c.fits)
		}
	}
	if got := s.Snapshot().QuotaVariables(nil, "q"); got != 100 {
		t.Errorf("%d bytes are counted, want 100", got)
	}
}

func TestQuotaAndNamespaces(t *testing.T) {
	s, next := limited(t)
	names := func(names ...string) error {
		_, err := s.DeleteQuotas(next(), &message.QuotaDeleteRequest{Names: names})
		return err
	}
	give := func(namespace, quota string) ([]string, error) {
		c, err := s.UpsertNamespaces(next(), &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: namespace, Quota: quota}}})
		if err != nil {
			return nil, err
		}
		return c.Quotas, nil
	}
	if err := names("q"); err == nil || !strings.Contains(err.Error(), `used by namespace "a"`) {
		t.Errorf("a quota in use is deleted: %v", err)
	}
	if err := names("none"); err == nil {
		t.Error("a quota that does not exist is deleted")
	}
	if _, err := give("a", "none"); err == nil || !strings.Contains(err.Error(), `quota "none", which does not exist`) {
		t.Errorf("a namespace gets a quota that does not exist: %v", err)
	}
	for i, c := range []struct{ namespace, quota, freed string }{{"a", "q", "[]"}, {"a", "other", "[q]"}, {"b", "", "[q]"},
		{"a", "q", "[other]"}, {"b", "q", "[]"}} {
		if freed, err := give(c.namespace, c.quota); err != nil || fmt.Sprint(freed) != c.freed {
			t.Errorf("%d: %v may have room, want %s; %v", i, freed, c.freed, err)
		}
	}
	if _, err := s.DeleteNamespaces(next(), &message.NamespaceDeleteRequest{Namespaces: []string{"a", "b"}}); err != nil {
		t.Fatal(err)
	}
	if err := names("q", "other"); err != nil {
		t.Error(err)
	}
}

func TestJobNeedsItsPool(t *testing.T) {
	s, next := limited(t)
	job := &nomad.Job{ID: "j", Namespace: "a", NodePool: "gpu", Type: nomad.JobTypeService}
	if _, err := s.RegisterJob(next(), &message.JobRegisterRequest{Job: job}); err == nil ||
		!strings.Contains(err.Error(), `nonexistent node pool "gpu"`) {
		t.Errorf("a job is in a pool that does not exist: %v", err)
	}
	if _, err := s.UpsertNodePools(next(), &message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: "gpu"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RegisterJob(next(), &message.JobRegisterRequest{Job: job}); err != nil {
		t.Error(err)
	}
}
