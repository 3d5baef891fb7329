package state

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// TagJobVersion sets the tag of a job version. Without a tag in the request it removes the tag with the name.
func (s *Store) TagJobVersion(index uint64, req *message.JobApplyTagRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		v, err := tagTarget(t, req)
		if err != nil {
			return err
		}
		t.setTag(v, req.Tag)
		t.trimVersions(v.Namespace, v.ID)
		return nil
	})
}

// Taggable returns an error if the request cannot be applied now.
func (s *Snapshot) Taggable(req *message.JobApplyTagRequest) error {
	_, err := tagTarget(s.tx, req)
	return err
}

// tagTarget returns the version whose tag the request sets or removes.
func tagTarget(tx table.Reader, req *message.JobApplyTagRequest) (*nomad.Job, error) {
	j := jobs.Get(tx, nil, table.KeyOf(req.Namespace, req.JobID))
	if j == nil {
		return nil, apierror.Errorf(404, "job %q not found", req.JobID)
	}
	number := req.Version
	if req.Latest {
		number = j.Version
	}
	var target, holder *nomad.Job
	for v := range jobVersions.By(tx, nil, table.Primary, table.KeyOf(req.Namespace, req.JobID)) {
		if v.Version == number {
			target = v
		}
		if v.VersionTag != nil && v.VersionTag.Name == req.Name {
			holder = v
		}
	}
	switch {
	case req.Tag == nil && holder == nil:
		return nil, apierror.Errorf(404, "tag %q not found on job %q", req.Name, req.JobID)
	case req.Tag == nil:
		return holder, nil
	case target == nil:
		return nil, apierror.Errorf(404, "job %q version %d not found", req.JobID, number)
	case holder != nil && holder.Version != number:
		return nil, apierror.Errorf(400, "tag %q already exists on a different version of job %q", req.Name, req.JobID)
	}
	return target, nil
}

// setTag stores the version with the tag, or without a tag. The current version is also a row of the jobs table.
func (t *txn) setTag(v *nomad.Job, tag *nomad.JobVersionTag) {
	tagged := *v
	tagged.VersionTag, tagged.ModifyIndex = tag, t.Index
	jobVersions.Put(t.Txn, &tagged)
	if j := jobs.Get(t, nil, table.KeyOf(v.Namespace, v.ID)); j != nil && j.Version == v.Version && j.CreateIndex == v.CreateIndex {
		current := *j
		current.VersionTag, current.ModifyIndex = tag, t.Index
		jobs.Put(t.Txn, &current)
	}
}

// VersionWithTag returns the version of a job that has the tag.
func (s *Snapshot) VersionWithTag(ns, id, tag string) (*nomad.Job, error) {
	for _, v := range s.JobVersions(nil, ns, id) {
		if v.VersionTag != nil && v.VersionTag.Name == tag {
			return v, nil
		}
	}
	return nil, apierror.Errorf(404, "tag %q not found on job %q", tag, id)
}
