package workloadapi

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/open-nomad/open-nomad/nomad/trustbundle"
)

// api answers the calls of one task.
type api struct {
	workload.UnimplementedSpiffeWorkloadAPIServer
	task    Task
	source  *Source
	tokens  *tokens
	bundles *Bundles
}

// FetchX509SVID sends the X.509-SVID of the task and each newer one.
func (a *api) FetchX509SVID(_ *workload.X509SVIDRequest, stream grpc.ServerStreamingServer[workload.X509SVIDResponse]) error {
	if !a.task.Task.Spiffe.X509 {
		return errNoX509
	}
	for {
		x, bundle, renewed, rotated, err := a.source.issued(stream.Context())
		if err != nil {
			return status.FromContextError(err).Err()
		}
		err = stream.Send(&workload.X509SVIDResponse{Svids: []*workload.X509SVID{{
			SpiffeId: x.id, X509Svid: x.chain, X509SvidKey: x.key, Bundle: bundle.DER(),
		}}})
		if err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-renewed:
		case <-rotated:
		}
	}
}

// FetchX509Bundles sends the CA certificates of the trust domain and each change of them.
func (a *api) FetchX509Bundles(_ *workload.X509BundlesRequest, stream grpc.ServerStreamingServer[workload.X509BundlesResponse]) error {
	return a.eachBundle(stream.Context(), func(b *trustbundle.Bundle) error {
		return stream.Send(&workload.X509BundlesResponse{Bundles: map[string][]byte{b.ID(): b.DER()}})
	})
}

// FetchJWTBundles sends the keys of JWT-SVIDs of the trust domain and each change of them.
func (a *api) FetchJWTBundles(_ *workload.JWTBundlesRequest, stream grpc.ServerStreamingServer[workload.JWTBundlesResponse]) error {
	return a.eachBundle(stream.Context(), func(b *trustbundle.Bundle) error {
		set, err := b.JWKS()
		if err != nil {
			return status.Error(codes.Internal, "encode the keys of JWT-SVIDs")
		}
		return stream.Send(&workload.JWTBundlesResponse{Bundles: map[string][]byte{b.ID(): set}})
	})
}

// eachBundle calls send with the bundle and each newer one.
func (a *api) eachBundle(ctx context.Context, send func(*trustbundle.Bundle) error) error {
	for {
		b, changed := a.bundles.Current()
		if b != nil {
			if err := send(b); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-changed:
		}
	}
}

// FetchJWTSVID returns a JWT-SVID of the task for the requested audiences.
func (a *api) FetchJWTSVID(ctx context.Context, req *workload.JWTSVIDRequest) (*workload.JWTSVIDResponse, error) {
	if !a.task.Task.Spiffe.JWT {
		return nil, errNoJWT
	}
	t, err := a.tokens.get(ctx, req.Audience)
	switch {
	case errors.Is(err, errAudience):
		return nil, status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, errTooMany):
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	case err != nil:
		a.task.Log.Warn("fetch JWT-SVID", "err", err)
		return nil, status.Error(codes.Unavailable, "the servers have not signed the JWT-SVID")
	case req.SpiffeId != "" && req.SpiffeId != t.id:
		return nil, status.Error(codes.PermissionDenied, "the task has another SPIFFE ID")
	}
	return &workload.JWTSVIDResponse{Svids: []*workload.JWTSVID{{SpiffeId: t.id, Svid: t.raw}}}, nil
}

// ValidateJWTSVID validates a JWT-SVID of the trust domain and returns its claims.
func (a *api) ValidateJWTSVID(ctx context.Context, req *workload.ValidateJWTSVIDRequest) (*workload.ValidateJWTSVIDResponse, error) {
	if req.Audience == "" || req.Svid == "" {
		return nil, status.Error(codes.InvalidArgument, "audience and svid must be specified")
	}
	b, err := a.firstBundle(ctx)
	if err != nil {
		return nil, err
	}
	domain, err := spiffeid.TrustDomainFromString(b.Domain)
	if err != nil {
		return nil, status.Error(codes.Internal, "the trust domain is not valid")
	}
	keys := jwtbundle.FromJWTAuthorities(domain, b.JWTKeys())
	valid, err := jwtsvid.ParseAndValidate(req.Svid, keys, []string{req.Audience})
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	claims, err := asStruct(valid.Claims)
	if err != nil {
		return nil, status.Error(codes.Internal, "encode the claims")
	}
	return &workload.ValidateJWTSVIDResponse{SpiffeId: valid.ID.String(), Claims: claims}, nil
}

// firstBundle waits for a bundle.
func (a *api) firstBundle(ctx context.Context) (*trustbundle.Bundle, error) {
	for {
		b, changed := a.bundles.Current()
		if b != nil {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-changed:
		}
	}
}

// asStruct converts claims, whose numbers may be of types that protobuf does not convert.
func asStruct(claims map[string]any) (*structpb.Struct, error) {
	text, err := json.Marshal(claims)
	if err != nil {
		return nil, err
	}
	out := &structpb.Struct{}
	return out, out.UnmarshalJSON(text)
}

// The errors of calls. PermissionDenied means that the workload has no such identity.
var (
	errNoX509 = status.Error(codes.PermissionDenied, "the spiffe block of the task has no x509 = true")
	errNoJWT  = status.Error(codes.PermissionDenied, "the spiffe block of the task has no jwt = true")
)
