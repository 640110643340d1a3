package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
	"github.com/promwarp/promwarp/internal/leafpb"
)

type gogo struct{}

func (gogo) Name() string                    { return "proto" }
func (gogo) Marshal(v any) ([]byte, error)   { return proto.Marshal(v.(proto.Message)) }
func (gogo) Unmarshal(b []byte, v any) error { return proto.Unmarshal(b, v.(proto.Message)) }

// askLeaf asks a server what it is as a leaf, and for a query.
func askLeaf(t *testing.T, s *Server, transport credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient(s.listeners[len(s.listeners)-1].Addr().String(), grpc.WithTransportCredentials(transport), grpc.WithDefaultCallOptions(grpc.ForceCodec(gogo{})))
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	info, err := leafpb.NewInfoClient(conn).Info(ctx, &leafpb.InfoRequest{})
	if err != nil {
		return err
	}
	require.Len(t, info.LabelSets, 1)
	stream, err := leafpb.NewQueryClient(conn).Query(ctx, &leafpb.QueryRequest{Query: "up", TimeSeconds: 1})
	require.NoError(t, err)
	m, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, 1.0, m.GetTimeseries().Samples[0].Value)
	for err == nil {
		_, err = stream.Recv()
	}
	return nil
}

// certificate makes a key and a certificate of a name, signed by another or by itself, and its files.
func certificate(t *testing.T, dir, name string, by *tls.Certificate) (c *tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: by == nil, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := of, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	require.NoError(t, err)
	return &pair, certFile, keyFile
}

// TestLeafTLS: what the web file says of TLS, client certificates and users holds for gRPC.
func TestLeafTLS(t *testing.T) {
	dir := t.TempDir()
	ca, caFile, _ := certificate(t, dir, "ca", nil)
	_, certFile, keyFile := certificate(t, dir, "server", ca)
	own, _, _ := certificate(t, dir, "client", ca)
	stranger, _, _ := certificate(t, dir, "stranger", nil)
	set := quickSettings()
	set.GRPC.ListenAddress = "127.0.0.1:0"
	set.Web.Config.File = testfiles.Config(t, fmt.Sprintf("tls_server_config: {cert_file: %s, key_file: %s, client_ca_file: %s, client_auth_type: RequireAndVerifyClientCert}\n", certFile, keyFile, caFile))
	s, _ := runServer(t, Config{Settings: set, Upstream: counting{}})
	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	with := func(certificates ...tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{RootCAs: pool, Certificates: certificates})
	}
	require.NoError(t, askLeaf(t, s, with(*own)))
	for name, transport := range map[string]credentials.TransportCredentials{"no certificate": with(), "a stranger's": with(*stranger), "no TLS": insecure.NewCredentials()} {
		require.Equal(t, codes.Unavailable, status.Code(askLeaf(t, s, transport)), name)
	}
}

// TestLeafAddress: an address for gRPC that another listener has is refused by its name.
func TestLeafAddress(t *testing.T) {
	set := quickSettings()
	set.Web.ListenAddress = config.List{"127.0.0.1:9201"}
	for address, text := range map[string]string{":9201": "an entry before has this address", "nonsense": "missing port"} {
		set.GRPC.ListenAddress = address
		err := checkAddresses(set)
		require.ErrorContains(t, err, "grpc.listen_address: "+address)
		require.ErrorContains(t, err, text)
	}
	set.GRPC.ListenAddress = "127.0.0.1:10901"
	require.NoError(t, checkAddresses(set))
}

// TestLeafReloads: calls come to the present generation, and one that is replaced is closed.
func TestLeafReloads(t *testing.T) {
	set := quickSettings()
	set.GRPC.ListenAddress = "127.0.0.1:0"
	s, stop := runServer(t, Config{Settings: set, Upstream: counting{}, Reload: func() (config.Settings, error) { return set, nil }})
	require.NoError(t, askLeaf(t, s, insecure.NewCredentials()))
	before := s.current.Load()
	require.NoError(t, s.Reload())
	require.NoError(t, askLeaf(t, s, insecure.NewCredentials()))
	requireUnused(t, before.Count)
	require.NoError(t, stop())
	require.Equal(t, codes.Unavailable, status.Code(askLeaf(t, s, insecure.NewCredentials())))
}
