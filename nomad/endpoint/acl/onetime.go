package acl

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// UpsertOneTimeToken creates a one-time token for the caller's ACL token. It replaces the
// previous one.
func (s *Service) UpsertOneTimeToken(
	ctx context.Context, c *rpc.Call, _ *message.OneTimeTokenUpsertRequest,
) (*message.OneTimeTokenUpsertResponse, error) {
	c.Access.MarkChecked()
	var own *rbac.Token
	if t := c.Identity.ACLToken; t != nil {
		own = s.Snapshot().ACLToken(nil, t.AccessorID) // excludes the anonymous token and the leader's token
	}
	if own == nil {
		return nil, apierror.Denied("needs an ACL token")
	}
	entry := &rbac.OneTimeToken{OneTimeSecretID: nomad.NewID(), AccessorID: own.AccessorID,
		ExpiresAt: s.Now().Add(rbac.OneTimeTokenTTL).UTC()}
	index, err := s.write(ctx, message.OneTimeTokenUpsertRequestType, entry)
	if err != nil {
		return nil, err
	}
	stored := *entry
	stored.CreateIndex, stored.ModifyIndex = index, index
	out := &message.OneTimeTokenUpsertResponse{OneTimeToken: &stored}
	out.Index = index
	return out, nil
}

// ExchangeOneTimeToken returns the ACL token of a one-time token. Only the first caller gets
// it; the order of the log entries decides.
func (s *Service) ExchangeOneTimeToken(
	ctx context.Context, _ *rpc.Call, req *message.OneTimeTokenExchangeRequest,
) (*message.OneTimeTokenExchangeResponse, error) {
	snap, now := s.Snapshot(), s.Now()
	once := snap.OneTimeToken(nil, req.OneTimeSecretID)
	if once == nil || once.HasExpired(now) {
		return nil, apierror.ErrPermissionDenied
	}
	entry := &message.OneTimeTokenDeleteRequest{AccessorIDs: []string{once.AccessorID}, OneTimeSecretID: once.OneTimeSecretID,
		Timestamp: now.UTC()}
	index, err := s.write(ctx, message.OneTimeTokenDeleteRequestType, entry)
	if err != nil {
		return nil, err
	}
	token := s.Snapshot().ACLToken(nil, once.AccessorID)
	if token == nil || token.HasExpired(now) {
		return nil, apierror.ErrPermissionDenied
	}
	out := &message.OneTimeTokenExchangeResponse{Token: token}
	out.Index = index
	return out, nil
}

// ExpireOneTimeTokens deletes expired one-time tokens.
func (s *Service) ExpireOneTimeTokens(
	ctx context.Context, _ *rpc.Call, _ *message.OneTimeTokenExpireRequest,
) (*message.GenericResponse, error) {
	out := &message.GenericResponse{}
	now := s.Now().UTC()
	for range s.Snapshot().OneTimeTokensExpired(now) {
		index, err := s.write(ctx, message.OneTimeTokenExpireRequestType, &message.OneTimeTokenExpireRequest{Timestamp: now})
		if err != nil {
			return nil, err
		}
		out.Index = index
		break
	}
	return out, nil
}
