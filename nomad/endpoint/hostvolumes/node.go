package hostvolumes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// callWithin limits a call to a node. A plugin has one minute; the rest is for its removal and the answer.
const callWithin = time.Minute + 10*time.Second

// nodeCall is a call of a method of HostVolume to a node.
type nodeCall struct {
	node, method string
	req          handler.ServerCall
}

// onNode makes a call to a node, over a session of this server or of another one.
func (s *Service) onNode(ctx context.Context, c nodeCall, resp any) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	c.req.Caller().Region = s.Region
	err := s.Nodes().NodeCall(ctx, c.node, "HostVolume."+c.method, c.req, resp)
	if errors.Is(err, apierror.ErrNoNodeConn) {
		err = s.Peers.AsServer(ctx, c.node, "ClientHostVolume."+c.method, c.req, resp)
	}
	if err == nil {
		rpc.Wrote(ctx) // a repeated call would do it twice
	}
	return err
}

// onNodeFailed adds to an error what was attempted on which node. It keeps the status.
func onNodeFailed(what, node string, err error) error {
	var coded *apierror.Coded
	if errors.As(err, &coded) {
		return apierror.Errorf(coded.Code, "%s on node %s: %s", what, node, coded.Message)
	}
	return fmt.Errorf("%s on node %s: %w", what, node, err)
}

// relayed passes a call of another server to a node that is connected to this one. The node does not get the server's
// token.
func relayed[Resp any](ctx context.Context, s *Service, c nodeCall) (*Resp, error) {
	*c.req.Caller() = message.NodeCall{Region: s.Region}
	out := new(Resp)
	return out, s.Nodes().NodeCall(ctx, c.node, "HostVolume."+c.method, c.req, out)
}

// ClientCreate relays a creation to the node.
func (s *Service) ClientCreate(ctx context.Context, _ *rpc.Call,
	req *message.ClientHostVolumeCreateRequest) (*message.ClientHostVolumeCreateResponse, error) {
	sent := *req
	return relayed[message.ClientHostVolumeCreateResponse](ctx, s, nodeCall{sent.NodeID, "Create", &sent})
}

// ClientRegister relays a registration to the node.
func (s *Service) ClientRegister(ctx context.Context, _ *rpc.Call,
	req *message.ClientHostVolumeRegisterRequest) (*message.ClientHostVolumeRegisterResponse, error) {
	sent := *req
	return relayed[message.ClientHostVolumeRegisterResponse](ctx, s, nodeCall{sent.NodeID, "Register", &sent})
}

// ClientDelete relays a deletion to the node.
func (s *Service) ClientDelete(ctx context.Context, _ *rpc.Call,
	req *message.ClientHostVolumeDeleteRequest) (*message.ClientHostVolumeDeleteResponse, error) {
	sent := *req
	return relayed[message.ClientHostVolumeDeleteResponse](ctx, s, nodeCall{sent.NodeID, "Delete", &sent})
}
