from ._boundary import note_answer as note_answer
from .agents import DPAgentMiddleware as DPAgentMiddleware
from .chat_model import DPChatModel as DPChatModel
from .check import Finding as Finding, check_agent as check_agent, check_chain as check_chain
from .documents import (
    DPDocumentTransformer as DPDocumentTransformer,
    DPEmbeddings as DPEmbeddings,
    DPRetriever as DPRetriever,
)
from .head import (
    DPSanitizer as DPSanitizer,
    PrivateHead as PrivateHead,
    PrivRewriteRunnable as PrivRewriteRunnable,
)
from .inferdpt import InferDPTChatModel as InferDPTChatModel
from .tracing import untraced as untraced
