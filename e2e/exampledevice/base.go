package main

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/exampledevice/proto"
)

// base is the service that every plugin has: its name, and its configuration.
type base struct {
	proto.UnimplementedBasePluginServer
	devices *devices
}

func (b *base) PluginInfo(context.Context, *proto.PluginInfoRequest) (*proto.PluginInfoResponse, error) {
	return &proto.PluginInfoResponse{Type: proto.PluginType_DEVICE, PluginApiVersions: []string{"v0.1.0"}, PluginVersion: "0.1.0",
		Name: "example"}, nil
}

// attr is the schema of an attribute.
func attr(kind string) *proto.Spec {
	return &proto.Spec{Block: &proto.Spec_Attr{Attr: &proto.Attr{Type: kind}}}
}

func (b *base) ConfigSchema(context.Context, *proto.ConfigSchemaRequest) (*proto.ConfigSchemaResponse, error) {
	return &proto.ConfigSchemaResponse{Spec: &proto.Spec{Block: &proto.Spec_Object{Object: &proto.Object{Attributes: map[string]*proto.Spec{
		"nodes": attr("list(string)"), "share": attr("string")}}}}}, nil
}

// config is the plugin block.
type config struct {
	Nodes []string `codec:"nodes"`
	// Share is a directory that each task with a device sees, read-only. It may be empty.
	Share string `codec:"share"`
}

// SetConfig is called more than once, in several processes.
func (b *base) SetConfig(_ context.Context, req *proto.SetConfigRequest) (*proto.SetConfigResponse, error) {
	var c config
	if err := codec.NewDecoderBytes(req.GetMsgpackConfig(), &codec.MsgpackHandle{}).Decode(&c); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	if len(c.Nodes) == 0 {
		return nil, status.Error(codes.InvalidArgument, "nodes must not be empty")
	}
	b.devices.configure(c)
	return &proto.SetConfigResponse{}, nil
}
