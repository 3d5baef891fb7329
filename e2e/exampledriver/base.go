package main

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/exampledriver/proto"
)

// base is the service that every plugin has: its name, and its configuration.
type base struct {
	proto.UnimplementedBasePluginServer
	driver *driver
}

func (b *base) PluginInfo(context.Context, *proto.PluginInfoRequest) (*proto.PluginInfoResponse, error) {
	return &proto.PluginInfoResponse{
		Type:              proto.PluginType_DRIVER,
		PluginApiVersions: []string{"v0.1.0"},
		PluginVersion:     "0.1.0",
		Name:              "example",
	}, nil
}

// attr is the schema of an attribute.
func attr(kind string, required bool) *proto.Spec {
	return &proto.Spec{Block: &proto.Spec_Attr{Attr: &proto.Attr{Type: kind, Required: required}}}
}

// object is the schema of a block.
func object(parts map[string]*proto.Spec) *proto.Spec {
	return &proto.Spec{Block: &proto.Spec_Object{Object: &proto.Object{Attributes: parts}}}
}

func (b *base) ConfigSchema(context.Context, *proto.ConfigSchemaRequest) (*proto.ConfigSchemaResponse, error) {
	return &proto.ConfigSchemaResponse{Spec: object(map[string]*proto.Spec{
		"greeting": {Block: &proto.Spec_Default{Default: &proto.Default{
			Primary: attr("string", false), Default: &proto.Spec{Block: &proto.Spec_Literal{Literal: &proto.Literal{Value: `"hello"`}}}}}},
		"crash_file": attr("string", false),
	})}, nil
}

// stderr is the standard error of the program, which the agent logs. go-plugin replaces os.Stderr.
var stderr = os.Stderr

// config is the plugin block.
type config struct {
	Greeting string `codec:"greeting"`
	// CrashFile makes the program end after its configuration, while the file exists.
	CrashFile string `codec:"crash_file"`
}

// SetConfig is called more than once, in several processes.
func (b *base) SetConfig(_ context.Context, req *proto.SetConfigRequest) (*proto.SetConfigResponse, error) {
	var c config
	if err := decode(req.GetMsgpackConfig(), &c); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	if c.Greeting == "" {
		return nil, status.Error(codes.InvalidArgument, "greeting must not be empty")
	}
	b.driver.configure(c)
	if _, err := os.Stat(c.CrashFile); err == nil && c.CrashFile != "" {
		fmt.Fprintln(stderr, "the file", c.CrashFile, "exists")
		go os.Exit(3)
	}
	return &proto.SetConfigResponse{}, nil
}
