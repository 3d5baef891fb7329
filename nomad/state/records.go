package state

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"log/slog"
	"strings"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// Record is one type of snapshot record: its type byte, and how its rows are listed and restored.
type Record struct {
	Type byte
	Name string

	row  func() any
	rows func(*Snapshot) iter.Seq[any]
	read func(r *Restore, decode func(any) error) error
}

// Row returns a new row of the type, or nil if rows of the type are only read.
func (r Record) Row() any {
	if r.row == nil {
		return nil
	}
	return r.row()
}

// Rows returns the rows to write to a snapshot. A type that is only read has none.
func (r Record) Rows(s *Snapshot) iter.Seq[any] {
	if r.rows == nil {
		return func(func(any) bool) {}
	}
	return r.rows(s)
}

// Read decodes one row with decode and adds it to the restored store.
func (r Record) Read(to *Restore, decode func(any) error) error { return r.read(to, decode) }

// Tables returns every record type of Nomad 2.0 snapshots, in the order in which they are
// written.
func Tables() []Record {
	return []Record{
		indexRecord(),
		rowRecord(0, "Node", nodes, canonicalNode),
		rowRecord(28, "NodePool", nodePools, canonicalPool),
		rowRecord(1, "Job", jobs, canonicalJob),
		rowRecord(3, "Eval", evals, nil),
		allocRecord(),
		rowRecord(6, "PeriodicLaunch", periodicLaunches, nil),
		rowRecord(7, "JobSummary", jobSummaries, canonicalSummary),
		rowRecord(9, "JobVersion", jobVersions, canonicalJob),
		rowRecord(10, "Deployment", deployments, nil),
		rowRecord(16, "ScalingPolicy", scalingPolicies, canonicalPolicy),
		rowRecord(19, "ScalingEvents", scalingEvents, nil),
		rowRecord(17, "CSIPlugin", csiPlugins, canonicalCSIPlugin),
		rowRecord(18, "CSIVolume", csiVolumes, canonicalCSIVolume),
		rowRecord(11, "ACLPolicy", aclPolicies, nil),
		rowRecord(12, "ACLToken", aclTokens, nil),
		rowRecord(64, "Namespace", namespaces, nil),
		rowRecord(13, "SchedulerConfig", schedulerConfigs, canonicalScheduler),
		rowRecord(14, "ClusterMetadata", clusterMetas, nil),
		rowRecord(21, "ServiceRegistration", registrations, nil),
		rowRecord(22, "Variables", variables, nil),
		rowRecord(23, "VariablesQuota", variableQuotas, nil),
		rowRecord(30, "RootKey", rootKeys, nil),
		rowRecord(25, "ACLRole", aclRoles, nil),
		rowRecord(26, "ACLAuthMethod", aclAuthMethods, nil),
		rowRecord(27, "ACLBindingRule", aclBindingRules, nil),
		rowRecord(29, "JobSubmission", jobSubmissions, nil),
		rowRecord(31, "HostVolume", hostVolumes, nil),
		legacyKeyRecord(),
		droppedRecord(5, "TimeTable"),
		droppedRecord(8, "VaultAccessor"),
		droppedRecord(15, "ServiceIdentityTokenAccessor"),
		refusedRecord(20, "EventSink"),
	}
}

// rowRecord is a record type for the rows of a table. fix sets fields that older servers leave
// out.
func rowRecord[T any](kind byte, name string, t *table.Table[T], fix func(*T)) Record {
	return Record{Type: kind, Name: name,
		row:  func() any { return new(T) },
		rows: func(s *Snapshot) iter.Seq[any] { return anySeq(t.All(s.tx, nil)) },
		read: func(r *Restore, decode func(any) error) error {
			row := new(T)
			if err := decode(row); err != nil {
				return err
			}
			if fix != nil {
				fix(row)
			}
			return t.Load(r.txn.Txn, row)
		},
	}
}

// indexRecord is rowRecord for the index table. The autopilot configuration, the quotas, the
// driver schemas and the volume claims have no record type. They are written as index rows that hold their JSON in the key. Readers that do
// not know such rows keep them.
func indexRecord() Record {
	rec := rowRecord(2, "Index", table.Indexes, nil)
	plain := rec.rows
	rec.rows = func(s *Snapshot) iter.Seq[any] {
		return func(yield func(any) bool) {
			for row := range plain(s) {
				if !yield(row) {
					return
				}
			}
			if c := s.AutopilotConfig(nil); c != nil && !yield(autopilotRow(c)) {
				return
			}
			for q := range s.Quotas(nil) {
				if !yield(quotaRow(q)) {
					return
				}
			}
			for d := range s.DriverSchemas(nil) {
				if !yield(schemaRow(d)) {
					return
				}
			}
			for c := range s.VolumeClaims(nil) {
				if !yield(claimRow(c)) {
					return
				}
			}
		}
	}
	rec.read = func(r *Restore, decode func(any) error) error {
		row := new(nomad.IndexEntry)
		if err := decode(row); err != nil {
			return err
		}
		if text, ok := strings.CutPrefix(row.Key, autopilotPrefix); ok {
			return r.readAutopilot(text)
		}
		if text, ok := strings.CutPrefix(row.Key, quotaPrefix); ok {
			return r.readQuota(text)
		}
		if text, ok := strings.CutPrefix(row.Key, schemaPrefix); ok {
			return r.readSchema(text)
		}
		if text, ok := strings.CutPrefix(row.Key, claimPrefix); ok {
			return r.readClaim(text)
		}
		return table.Indexes.Load(r.txn.Txn, row)
	}
	return rec
}

// allocRow is an allocation whose job is not decoded.
type allocRow struct {
	nomad.Allocation
	Job msgpack.Raw
}

// allocRecord is rowRecord for allocations. Each record contains the complete job. Allocations
// with the same job share one value, which is decoded once.
func allocRecord() Record {
	rec := rowRecord(4, "Alloc", allocs, nil)
	rec.read = func(r *Restore, decode func(any) error) error {
		var row allocRow
		if err := decode(&row); err != nil {
			return err
		}
		a := row.Allocation
		var err error
		if a.Job, err = r.writtenJob(row.Job); err != nil {
			return fmt.Errorf("job of allocation %s: %w", a.ID, err)
		}
		return allocs.Load(r.txn.Txn, &a)
	}
	return rec
}

// legacyKeyRecord reads root keys that servers before 1.9 wrote.
func legacyKeyRecord() Record {
	return Record{Type: 24, Name: "RootKeyMeta", read: func(r *Restore, decode func(any) error) error {
		var m rootkey.Meta
		if err := decode(&m); err != nil {
			return err
		}
		return rootKeys.Load(r.txn.Txn, keyOfMeta(&m))
	}}
}

// anySeq converts a sequence of *T to a sequence of any.
func anySeq[T any](seq iter.Seq[*T]) iter.Seq[any] {
	return func(yield func(any) bool) {
		for v := range seq {
			if !yield(v) {
				return
			}
		}
	}
}

// Restore fills a new store from snapshot records, which may come in any order. The store is not
// visible to others before Finish.
type Restore struct {
	store *Store
	txn   *txn
	jobs  map[jobRevision]*nomad.Job
	text  map[[sha256.Size]byte]*nomad.Job // jobs by the hash of their encoded form
}

// jobRevision identifies one revision of a job.
type jobRevision struct {
	nomad.NamespacedID
	created, modified, version uint64
}

// NewRestore starts a restore into an empty store.
func NewRestore(log *slog.Logger) *Restore {
	s := Empty(log)
	return &Restore{store: s, txn: &txn{Txn: s.Begin(), log: s.log},
		jobs: map[jobRevision]*nomad.Job{}, text: map[[sha256.Size]byte]*nomad.Job{}}
}

// writtenJob returns the job that text encodes. It decodes a text only the first time.
func (r *Restore) writtenJob(text []byte) (*nomad.Job, error) {
	if len(text) == 0 {
		return nil, nil
	}
	sum := sha256.Sum256(text)
	if known, ok := r.text[sum]; ok {
		return known, nil
	}
	var j *nomad.Job
	if err := codec.Decode(text, &j); err != nil {
		return nil, err
	}
	j = r.shareJob(j)
	r.text[sum] = j
	return j, nil
}

// shareJob returns the first job that was read with the same revision.
func (r *Restore) shareJob(j *nomad.Job) *nomad.Job {
	if j == nil {
		return nil
	}
	rev := jobRevision{j.NamespacedID(), j.CreateIndex, j.ModifyIndex, j.Version}
	if known := r.jobs[rev]; known != nil {
		return known
	}
	canonicalJob(j)
	if j.ModifyIndex != 0 { // a job without an index was never stored, so it has no revision
		r.jobs[rev] = j
	}
	return j
}

// Abort discards a failed restore.
func (r *Restore) Abort() { r.txn.Abort() }

// Finish adds the built-in rows and the rows that earlier versions left out, cancels the
// deployments of jobs that do not exist and returns the store.
func (r *Restore) Finish() *Store {
	t := r.txn
	var latest uint64 = 1
	for row := range table.Indexes.All(t, nil) {
		latest = max(latest, row.Value)
	}
	t.Index = latest
	t.putBuiltin()
	r.countUsages()
	for j := range jobs.All(t, nil) {
		t.restoreLaunch(j)
		t.restoreScaling(j)
	}
	t.restorePlugins()
	for d := range deployments.All(t, nil) {
		if d.Active() && jobs.Get(t, nil, table.KeyOf(d.Namespace, d.JobID)) == nil {
			cancelled := *d
			cancelled.Status = nomad.DeploymentStatusCancelled
			cancelled.StatusDescription = nomad.DeploymentStatusDescriptionStoppedJob
			deployments.Put(t.Txn, &cancelled)
			r.store.log.Info("cancelled deployment of a deleted job", "deployment", d.ID, "job", d.JobID)
		}
	}
	t.Commit()
	r.store.base = latest
	r.store.Advance(latest)
	return r.store
}
