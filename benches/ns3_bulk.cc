// One Cubic flow in ns-3, and the CPU time of each packet it delivers: what `python -m benches.ns3` compares with.
//
// ns3_bulk SECONDS dumbbell: hosts at 1 Gbit/s on both sides of a link of 100 Mbit/s, 25 ms, 416 packets.
// ns3_bulk SECONDS hosts: that link alone.

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

int main(int argc, char **argv) {
    if (argc != 3) {
        std::cerr << "ns3_bulk SECONDS dumbbell|hosts\n";
        return 2;
    }
    const double seconds = std::atof(argv[1]);
    const bool dumbbell = std::string(argv[2]) == "dumbbell";
    const uint32_t mss = 1448;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(mss));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    for (auto buffer : {"ns3::TcpSocket::SndBufSize", "ns3::TcpSocket::RcvBufSize"}) {
        Config::SetDefault(buffer, UintegerValue(1 << 26));
    }

    PointToPointHelper access, bottleneck;
    access.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    bottleneck.SetDeviceAttribute("DataRate", StringValue("100Mbps"));
    bottleneck.SetChannelAttribute("Delay", StringValue("25ms"));
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("416p"));

    NodeContainer nodes;
    nodes.Create(dumbbell ? 4 : 2);
    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer last;
    for (uint32_t i = 0; i + 1 < nodes.GetN(); i++) {
        const bool outer = dumbbell && i != 1;
        NetDeviceContainer link = (outer ? access : bottleneck).Install(nodes.Get(i), nodes.Get(i + 1));
        last = addresses.Assign(link);
        addresses.NewNetwork();
        TrafficControlHelper().Uninstall(link);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    const uint16_t port = 5000;
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    ApplicationContainer receiver = sink.Install(nodes.Get(nodes.GetN() - 1));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(last.GetAddress(1), port));
    bulk.SetAttribute("SendSize", UintegerValue(mss));
    bulk.Install(nodes.Get(0));

    Simulator::Stop(Seconds(seconds));
    const std::clock_t began = std::clock();
    Simulator::Run();
    const double cpu_s = double(std::clock() - began) / CLOCKS_PER_SEC;
    const double bytes = DynamicCast<PacketSink>(receiver.Get(0))->GetTotalRx();
    std::cout << cpu_s * 1e9 / (bytes / mss) << " " << bytes * 8 / seconds / 1e6 << "\n";
    Simulator::Destroy();
}
