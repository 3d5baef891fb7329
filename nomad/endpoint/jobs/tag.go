package jobs

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// maxTagText bounds the name and the description of a version tag, which the servers keep with the version.
const maxTagText = 1_000

// TagVersion gives a version of a job a tag, or removes the tag if the request has none.
func (s *Service) TagVersion(ctx context.Context, _ *rpc.Call, req *message.JobApplyTagRequest) (*message.JobTagResponse, error) {
	entry := *req
	entry.WriteRequest = message.WriteRequest{Namespace: handler.NamespaceOf(req.Namespace)}
	out := &message.JobTagResponse{Name: req.Name}
	if req.Tag != nil {
		tag := *req.Tag
		tag.Name, tag.TaggedTime = req.Name, s.UnixNow()
		entry.Tag = &tag
		out.Description, out.TaggedTime = tag.Description, tag.TaggedTime
	}
	switch {
	case req.JobID == "":
		return nil, apierror.Errorf(400, "missing job ID for tagging")
	case req.Name == "":
		return nil, apierror.Errorf(400, "missing name of the version tag")
	case len(req.Name) > maxTagText || len(out.Description) > maxTagText:
		return nil, apierror.Errorf(400, "the name and the description of a version tag can have %d bytes each", maxTagText)
	case req.Latest && req.Version != 0:
		return nil, apierror.Errorf(400, "version must be zero when tagging latest, got: %d", req.Version)
	}
	if err := s.Snapshot().Taggable(&entry); err != nil {
		return nil, err
	}
	var err error
	if out.Index, err = s.Apply(ctx, message.JobVersionTagRequestType, &entry); err != nil {
		return nil, err
	}
	return out, nil
}
