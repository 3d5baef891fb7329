package acl

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// UpsertAuthMethods creates and updates auth methods. An update keeps the fields that the
// request omits.
func (s *Service) UpsertAuthMethods(
	ctx context.Context, _ *rpc.Call, req *message.ACLAuthMethodUpsertRequest,
) (*message.ACLAuthMethodUpsertResponse, error) {
	if len(req.AuthMethods) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one auth method")
	}
	snap := s.Snapshot()
	entry := &message.ACLAuthMethodUpsertRequest{}
	names, defaults := map[string]bool{}, map[string]string{}
	for _, asked := range req.AuthMethods {
		m, err := s.authMethodOf(snap, asked)
		if err != nil {
			return nil, handler.BadRequest(err)
		}
		if names[m.Name] {
			return nil, apierror.Errorf(400, "duplicate auth method %q in the request", m.Name)
		}
		names[m.Name] = true
		if other := defaults[m.Type]; m.Default && other != "" {
			return nil, apierror.Errorf(400, "auth methods %q and %q cannot both be the default of type %s", other, m.Name, m.Type)
		}
		if m.Default {
			defaults[m.Type] = m.Name
		}
		entry.AuthMethods = append(entry.AuthMethods, m)
	}
	index, err := s.write(ctx, message.ACLAuthMethodsUpsertRequestType, entry)
	if err != nil {
		return nil, err
	}
	for _, m := range entry.AuthMethods {
		for _, warning := range login.Warnings(m) {
			s.Log.Warn("auth method", "method", m.Name, "warning", warning)
		}
	}
	stored := authMethods.Stored(s.Snapshot(), entry.AuthMethods)
	out := &message.ACLAuthMethodUpsertResponse{AuthMethods: page.Each(stored, login.Redact)}
	out.Index = index
	return out, nil
}

// authMethodOf returns the auth method to store for a request.
func (s *Service) authMethodOf(snap *state.Snapshot, asked *rbac.AuthMethod) (*rbac.AuthMethod, error) {
	m := codec.Copy(asked)
	old := snap.ACLAuthMethod(nil, m.Name)
	if err := login.Merge(m, old); err != nil {
		return nil, err
	}
	login.Complete(m)
	if err := login.CheckMethod(m, s.cfg.Control.TokenMinTTL, s.cfg.Control.TokenMaxTTL); err != nil {
		return nil, err
	}
	if other := snap.ACLDefaultAuthMethod(nil, m.Type); m.Default && other != nil && other.Name != m.Name {
		return nil, apierror.Errorf(400, "%q is already the default auth method of type %s", other.Name, m.Type)
	}
	m.ModifyTime = s.Now().UTC()
	if m.CreateTime = m.ModifyTime; old != nil {
		m.CreateTime = old.CreateTime
	}
	m.CreateIndex, m.ModifyIndex = 0, 0
	m.SetHash()
	return m, nil
}

// DeleteAuthMethods deletes auth methods and their binding rules. Tokens of earlier logins
// stay until they expire.
func (s *Service) DeleteAuthMethods(
	ctx context.Context, _ *rpc.Call, req *message.ACLAuthMethodDeleteRequest,
) (*message.GenericResponse, error) {
	if len(req.Names) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one auth method")
	}
	entry := &message.ACLAuthMethodDeleteRequest{Names: req.Names}
	return handler.Written(s.write(ctx, message.ACLAuthMethodsDeleteRequestType, entry))
}

// ListAuthMethods lists auth methods. It needs no token, since a login starts without one.
func (s *Service) ListAuthMethods(
	ctx context.Context, _ *rpc.Call, req *message.ACLAuthMethodListRequest,
) (*message.ACLAuthMethodListResponse, error) {
	opts := req.QueryOptions
	opts.AuthToken = "" // not checked: the caller counts as anonymous
	found, meta, err := authMethods.List(ctx, s.Core, &opts, (*state.Snapshot).ACLAuthMethods)
	return &message.ACLAuthMethodListResponse{AuthMethods: found, QueryMeta: meta}, err
}

// GetAuthMethod returns an auth method without its secrets.
func (s *Service) GetAuthMethod(
	ctx context.Context, _ *rpc.Call, req *message.ACLAuthMethodGetRequest,
) (*message.ACLAuthMethodGetResponse, error) {
	found, meta, err := authMethods.One(ctx, s.Core, &req.QueryOptions, req.MethodName)
	return &message.ACLAuthMethodGetResponse{AuthMethod: login.Redact(found), QueryMeta: meta}, err
}

// GetAuthMethods returns auth methods with their secrets, for replication to other regions.
// No route of the HTTP API calls it.
func (s *Service) GetAuthMethods(
	ctx context.Context, _ *rpc.Call, req *message.ACLAuthMethodsGetRequest,
) (*message.ACLAuthMethodsGetResponse, error) {
	found, meta, err := authMethods.Set(ctx, s.Core, &req.QueryOptions, req.Names)
	return &message.ACLAuthMethodsGetResponse{AuthMethods: found, QueryMeta: meta}, err
}

// boundTTL returns the TTL of the tokens of an auth method. It is at most the server's
// TokenMaxTTL.
func (s *Service) boundTTL(m *rbac.AuthMethod) time.Duration {
	return min(m.MaxTokenTTL, s.cfg.Control.TokenMaxTTL)
}
