// Command mock is a CSI plugin of the CSI project's mock driver (csi-test), as a process that an agent can run. Its volumes exist
// in the answers only: each has the ID "vol-" and its name. On a node, a volume is an empty tmpfs. Its faults are those of the
// mock driver: a call that is not expected ends the process.
//
// The plugin listens on CSI_ENDPOINT, as all plugins. It has the services Controller and Node, and stages volumes.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/driver"
	"go.uber.org/mock/gomock"
	"golang.org/x/sys/unix"
)

// reporter ends the process when the mock driver gets a call that is not expected.
type reporter struct{}

func (reporter) Errorf(format string, args ...any) { log.Printf(format, args...) }
func (reporter) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func main() {
	path, ok := strings.CutPrefix(os.Getenv("CSI_ENDPOINT"), "unix://")
	if !ok {
		log.Fatal("mock: CSI_ENDPOINT must be unix://PATH")
	}
	os.Remove(path) // of an instance that was killed
	calls := gomock.NewController(reporter{})
	d := driver.NewMockCSIDriver(&driver.MockCSIDriverServers{Identity: identity(calls), Controller: controller(calls), Node: node(calls)})
	if err := d.StartOnAddress("unix", path); err != nil {
		log.Fatal("mock: ", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, os.Interrupt)
	defer stop()
	<-ctx.Done() // the process ends with its calls
}

// identity returns the service Identity.
func identity(calls *gomock.Controller) *driver.MockIdentityServer {
	s := driver.NewMockIdentityServer(calls)
	s.EXPECT().GetPluginInfo(gomock.Any(), gomock.Any()).AnyTimes().
		Return(&csi.GetPluginInfoResponse{Name: "mock.csi.example.com", VendorVersion: "5.6.0"}, nil)
	s.EXPECT().Probe(gomock.Any(), gomock.Any()).AnyTimes().Return(&csi.ProbeResponse{}, nil)
	s.EXPECT().GetPluginCapabilities(gomock.Any(), gomock.Any()).AnyTimes().Return(&csi.GetPluginCapabilitiesResponse{
		Capabilities: []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}}}}, nil)
	return s
}

// controller returns the service Controller.
func controller(calls *gomock.Controller) *driver.MockControllerServer {
	s := driver.NewMockControllerServer(calls)
	able := new(csi.ControllerGetCapabilitiesResponse)
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME} {
		able.Capabilities = append(able.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
			Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}}})
	}
	s.EXPECT().ControllerGetCapabilities(gomock.Any(), gomock.Any()).AnyTimes().Return(able, nil)
	s.EXPECT().CreateVolume(gomock.Any(), gomock.Any()).AnyTimes().DoAndReturn(
		func(_ context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
			return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "vol-" + req.GetName(),
				CapacityBytes: req.GetCapacityRange().GetRequiredBytes()}}, nil
		})
	s.EXPECT().DeleteVolume(gomock.Any(), gomock.Any()).AnyTimes().Return(&csi.DeleteVolumeResponse{}, nil)
	s.EXPECT().ValidateVolumeCapabilities(gomock.Any(), gomock.Any()).AnyTimes().DoAndReturn(
		func(_ context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
			return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
				VolumeCapabilities: req.GetVolumeCapabilities()}}, nil
		})
	s.EXPECT().ControllerPublishVolume(gomock.Any(), gomock.Any()).AnyTimes().Return(&csi.ControllerPublishVolumeResponse{
		PublishContext: map[string]string{"device": "mock"}}, nil)
	s.EXPECT().ControllerUnpublishVolume(gomock.Any(), gomock.Any()).AnyTimes().Return(&csi.ControllerUnpublishVolumeResponse{}, nil)
	return s
}

// node returns the service Node.
func node(calls *gomock.Controller) *driver.MockNodeServer {
	s := driver.NewMockNodeServer(calls)
	s.EXPECT().NodeGetInfo(gomock.Any(), gomock.Any()).AnyTimes().Return(&csi.NodeGetInfoResponse{NodeId: "mock-node"}, nil)
	s.EXPECT().NodeGetCapabilities(gomock.Any(), gomock.Any()).AnyTimes().Return(&csi.NodeGetCapabilitiesResponse{
		Capabilities: []*csi.NodeServiceCapability{{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}}}}}, nil)
	s.EXPECT().NodeStageVolume(gomock.Any(), gomock.Any()).AnyTimes().Return(&csi.NodeStageVolumeResponse{}, nil)
	s.EXPECT().NodeUnstageVolume(gomock.Any(), gomock.Any()).AnyTimes().Return(&csi.NodeUnstageVolumeResponse{}, nil)
	s.EXPECT().NodePublishVolume(gomock.Any(), gomock.Any()).AnyTimes().DoAndReturn(
		func(_ context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
			if err := os.MkdirAll(req.GetTargetPath(), 0o755); err != nil {
				return nil, err
			}
			return &csi.NodePublishVolumeResponse{}, unix.Mount("tmpfs", req.GetTargetPath(), "tmpfs", 0, "size=1m")
		})
	s.EXPECT().NodeUnpublishVolume(gomock.Any(), gomock.Any()).AnyTimes().DoAndReturn(
		func(_ context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
			if err := unix.Unmount(req.GetTargetPath(), unix.UMOUNT_NOFOLLOW); err != nil && err != unix.EINVAL && err != unix.ENOENT {
				return nil, err
			}
			return &csi.NodeUnpublishVolumeResponse{}, os.RemoveAll(req.GetTargetPath())
		})
	return s
}
